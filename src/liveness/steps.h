// Which steps a trace holds whole: those whose every event between begin and end was kept.
//
// A step that began before a Restart and is only announced again after it is not whole. Linear in events.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/units.h"
#include "trace/trace.h"

namespace spillway {

struct WholeStep {
  JobId job;
  StepIndex step;
  std::size_t begin = 0, end = 0;  // its events [begin, end), from StepBegin to StepEnd
  std::uint32_t ops = 0;
  friend bool operator==(const WholeStep&, const WholeStep&) = default;
};

// In the order in which they end.
[[nodiscard]] std::vector<WholeStep> find_whole_steps(const Trace& trace);

[[nodiscard]] std::optional<WholeStep> find_step(const Trace& trace, StepIndex step, JobId job = JobId{0});

// The last whole step that runs an op: by then caches are warm and optimizer state exists. Empty when there is none.
[[nodiscard]] std::optional<WholeStep> find_steady_step(const Trace& trace);

}  // namespace spillway
