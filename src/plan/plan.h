// What shall happen to a storage while nobody touches it: kept, moved away and fetched in time, or dropped and rebuilt.
//
// Pure and deterministic: (step, costs, budget) -> plan. A plan is judged by the timeline (timeline.h), which knows how the
// engine carries it out; its prediction says what that costs and whether it fits.
#pragma once

#include <span>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "liveness/gaps.h"

namespace spillway {

enum class Remedy : std::uint8_t { keep, move, drop };

// How dear things are on one machine. A copy costs twice: the time until its bytes are there, which compute can hide,
// and the slowdown of the kernels beside it, which nothing hides.
struct Costs {
  double out_nanos_per_byte = 0, in_nanos_per_byte = 0;  // on an otherwise idle link
  double out_price = 0, in_price = 0;                    // nanoseconds that compute loses per byte
  Nanos per_copy;                                        // on the link, whatever its size
  Nanos per_replay;                                      // on top of the operator's own time
  // The host's time for each: it shows only where the host is late, but that it may be anywhere.
  Nanos host_per_copy = 25_us, host_per_replay = 15_us;
  Nanos host_step;  // the host's time for the step itself, where steps wait for it; zero: it runs ahead
};

struct PlannedGap {
  Gap gap;
  Remedy remedy = Remedy::keep;
  OpPlace fetch_at = 0;  // move: the way back, if there is one, is enqueued before this op, in [gap.begin, gap.end]
  // drop: made again before its time, because another is rebuilt from it, it leaves again after that; otherwise it stays.
  bool again = false;

  friend bool operator==(const PlannedGap&, const PlannedGap&) = default;
};

// A storage whose bytes stay beyond its death until before an op, because somebody is rebuilt from them.
struct Hold {
  StoragePlace storage = 0;
  OpPlace until = 0;

  friend bool operator==(const Hold&, const Hold&) = default;
};

// The order of ways back that wait for room at the same op: who was enqueued first, then whose storage is the older one.
[[nodiscard]] inline std::tuple<OpPlace, StoragePlace, OpPlace> order_of_return(const Gap& gap, OpPlace fetch_at, OpPlace ops) {
  return {fetch_at % ops, gap.storage, gap.begin};
}

struct Prediction {
  Bytes peak, over;  // over: what the neediest op lacks; zero when the plan fits
  Bytes peak_home;   // of bytes whose storages are there: without those still leaving
  OpPlace peak_op = 0;
  Nanos time, plain_time, stall, rebuild;
  Nanos effort;          // the host's, for copies and reruns: in `time` only where the step waits for the host
  Bytes moved, rebuilt;  // moved: one way
};

struct Plan {
  std::vector<PlannedGap> gaps;  // those that are not kept, by begin
  std::vector<Hold> holds;       // that follow from them, by end
  Prediction predicted;
  int judged = 0;  // executions of the step that the timeline was asked for in the search that ended with it: what finding it took
};

struct PlanRequest {
  const Liveness& step;
  Costs costs;
  Bytes budget;
  Bytes smallest = 64_KiB;  // storages below this are not worth a decision
  // By op: the time in which the first storage it makes is made again from what the op read and the others it made; for one
  // that makes none and changes a storage in place, what it adds to that. Zero, or none at all: by running the op.
  std::span<const Nanos> lean = {};
};

// What the plan, made for the same step, promises as things are now.
[[nodiscard]] Prediction predict(const PlanRequest& request, const Plan& plan);

// Keep, move or recompute per gap: a first plan by prices (prices.h), within milliseconds. `from`: a plan of the same step
// for another budget, whose choices are kept where they still help.
[[nodiscard]] Plan plan_hybrid(const PlanRequest& request, const Plan& from = {});

// The same by one change after the other, each judged by the timeline: slower, and often better at low budgets.
[[nodiscard]] Plan plan_step_by_step(const PlanRequest& request);

// The same from other beginnings, of which there are so many. The last is for where nothing else fits.
inline constexpr int kPatientWay = 12, kOtherWays = 13;
[[nodiscard]] Plan plan_another_way(const PlanRequest& request, int way);

// Goes on from a plan, made for this budget or another, by trying changes until `tries` of them are spent; never returns one
// that is worse here. `seed` chooses which: of three in a row one, the first, by changes that help at once alone, the others also
// by such that help later.
[[nodiscard]] Plan improve(const PlanRequest& request, const Plan& plan, int tries, std::uint32_t seed = 1);

// Fits where the other does not, or is faster, half of what the host does counted.
[[nodiscard]] bool is_better(const Prediction& one, const Prediction& other);

}  // namespace spillway
