// Two steps of the run as a trace in memory, for the planner: the first tells who lives when the second begins.
//
// It tells the run as it would be without us: storages that left still live, rebuilds are not ops. Belongs to the engine's
// lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "engine/record.h"
#include "engine/tape.h"
#include "trace/trace.h"

namespace spillway {

// What an op is known by: without and with the sizes of its arguments.
struct OpKey {
  std::uint64_t shape = 0, sized = 0;
};

struct RecordedSteps {
  Trace trace;
  std::vector<std::uint64_t> keys;  // of the second step's ops, in order: what the engine knows each by
  std::vector<std::uint64_t> shapes;  // of the same ops, whatever the sizes of their arguments
  bool sample = false;              // there is no first step
  std::vector<Nanos> lean;          // of the same ops: as in PlanRequest
  std::vector<bool> timed;          // of the same ops: the device measures it
};

// What the measured ops of a step took on the device, in order: known already, or to be asked for on a thread that may wait for the
// device.
struct StepTimes {
  std::vector<Nanos> now;
  std::function<std::vector<Nanos>()> later = {};
  [[nodiscard]] std::vector<Nanos> get() const { return later ? later() : now; }
};

// `durations`: of those ops that the device times, in order; the others take none of its time. Where these are not all of them,
// the times told with the ops stand.
void set_times(RecordedSteps& steps, const std::vector<Nanos>& durations);
// All of them together.
[[nodiscard]] Nanos time_of(const RecordedSteps& steps);

class StepRecorder {
 public:
  static constexpr StepIndex kStep{1};  // the one to plan
  // About 170,000 ops and 100 MiB. A run that goes on without ending a step (an evaluation after the last one, say) is no step.
  static constexpr std::size_t kMostEvents = 500'000;

  [[nodiscard]] bool on() const { return on_; }
  [[nodiscard]] bool on_planned_step() const { return on_ && step_ == kStep.index; }

  // Whoever lives now is told by `birth` before the first op.
  void begin();
  // Only the step to plan, for its sizes and times; whoever lives is told first, then it is opened.
  void begin_sample();
  void open_sample();
  // `stays`: it never leaves.
  void birth(const Record& record, bool stays = false);
  void death(const Record& record);
  // Gives up where a step has grown beyond all measure.
  void op(const OpNote& note, OpKey key);
  // True when both steps are there.
  [[nodiscard]] bool end_step();
  [[nodiscard]] RecordedSteps take();
  void abandon() { *this = {}; }

 private:
  [[nodiscard]] NameId intern(std::string_view text);

  bool on_ = false;
  std::uint32_t step_ = 0, ops_ = 0;
  RecordedSteps steps_;
  std::unordered_map<std::string, NameId> names_;
};

}  // namespace spillway
