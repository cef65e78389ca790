// Is this trace one? The laws every consumer relies on, checked in one pass.
//
//   storages   numbered by birth from 0 without gaps, born once, used only while they live, dead once; ids are free to
//              have gaps after a Restart, which also begins the living anew
//   ops        indices only grow; an op that names a step runs inside that step of its job: [StepBegin, StepEnd)
//   steps      of a job do not overlap, and their indices only grow
//   names      announced in order and before use (readers make sure of it; traces made in memory are checked here)
//   amounts    sizes, times and durations are not negative, and no sum of sizes leaves 62 bits
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace spillway {

struct TraceProblem {
  std::size_t event = 0;  // its place in the trace
  std::string what;
  friend bool operator==(const TraceProblem&, const TraceProblem&) = default;
};

// Empty for a lawful trace. Stops after `most` problems: one broken law often breaks many events.
[[nodiscard]] std::vector<TraceProblem> check_trace(const Trace& trace, std::size_t most = 100);

}  // namespace spillway
