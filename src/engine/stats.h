// What the engine tells of itself: counts since the start, and why an allocation could not be served.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"
#include "engine/planner.h"
#include "engine/stalls.h"

namespace spillway {

// The op that made the floor what it is. `transient`: outputs and workspace at their most.
struct FloorOp {
  std::string name;
  Bytes inputs, outputs, transient, cannot_leave;
};

struct EngineStats {
  Bytes budget, most_budget;  // now, and the largest since the start
  Bytes reserved, peak_reserved, live, peak_live, floor;
  FloorOp floor_op;
  Bytes plain_peak;  // of live bytes, had nothing left; what rebuilds need is not in it
  std::int64_t ops = 0, steps = 0, evictions = 0, recomputed_ops = 0;
  std::int64_t lean_rebuilds = 0;  // of the recomputed ops: see Note [Lean rebuilds]
  Bytes moved_out, moved_in, dropped, left_clean;
  Nanos recompute;
  StallTimes stalls;
  std::int64_t violations = 0;
  std::int64_t remaps = 0;         // free memory put together, because bytes sufficed and no hole did
  std::int64_t planned_steps = 0;  // gone by a plan from the first op to the last
  std::int64_t surprises = 0;      // room that had to be made in them beside the plan
  std::int64_t placed_steps = 0;   // of the planned steps, those whose blocks had places
  std::int64_t varying_steps = 0, foreseen_steps = 0;  // of sizes that change, and those of them for which there was a plan
  std::int64_t reused_plans = 0, fitting_steps = 0;  // of those: by a plan for another size; without one, since all of it had room
  std::int64_t extended_plans = 0;                   // of those: by a plan from whose reserve somebody left
  Nanos planning;                  // of the training thread, for finding and asking for plans, waiting for them, and learning from steps
  bool warm_start = false, seeks = false;  // a run before this one left steps to plan for; better plans are looked for now
  std::int64_t first_planned_ops = 0;  // of the first step: by a plan that a run before this one left
  std::string store_problem;       // why they are not used, or none can be left: in words
  std::int64_t misplaced = 0;      // blocks in them that did not get one
  std::optional<Prediction> predicted;  // of the plan that is followed now
  std::optional<FirstPlan> first_plan;  // for its step
};

// Since the last reset.
struct RecentPeaks { Bytes live, reserved; };

// Why an allocation could not be served, in bytes.
struct Shortage {
  Bytes asked, budget;
  Bytes coming;  // arguments of the op that are not there yet, what was asked for among them; zero: it was for something new
  // What was there and could not leave, each byte once, by the reason.
  Bytes pinned, kept, held, named, anonymous, small, homeless;
  Bytes evictable;           // nobody asked them: no room they make would have done
  Bytes free, longest_free;  // free, but perhaps not in one piece
  Bytes host_limit;          // of the tier below; zero: there is none
  bool file = false;         // there is a file below
  bool crowded = false;      // ops of other threads had some of it
  [[nodiscard]] Bytes stay() const { return pinned + kept + held + named + anonymous + small + homeless; }
};

}  // namespace spillway
