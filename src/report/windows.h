// Which stretches of a trace the report draws: its steps, whole or cut, and how many of them fit on a page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "trace/trace.h"

namespace spillway {

// The events [begin, end) of one step. A trace that knows no steps is one window without a step.
struct StepWindow {
  JobId job;
  StepIndex step;
  std::size_t begin = 0, end = 0;
  std::uint32_t ops = 0;
  bool whole = false;      // false: the run or the record ended before the step did, or began after it
  std::uint64_t cost = 0;  // what drawing it takes, in events: its own, and one for every storage there at its begin
  friend bool operator==(const StepWindow&, const StepWindow&) = default;
};

// In the order in which they begin; steps without an op are left out.
[[nodiscard]] std::vector<StepWindow> find_windows(const Trace& trace);

// The places of those to draw, ascending: the first two, then the last ones as long as the sum of costs stays within
// `most`. Never none where there is one.
[[nodiscard]] std::vector<std::size_t> choose_windows(const std::vector<StepWindow>& windows, std::uint64_t most);

}  // namespace spillway
