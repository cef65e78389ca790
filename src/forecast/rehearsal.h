// How well a recorded run could have been foreseen: every step told from those before it, then compared with what it was.
#pragma once

#include <optional>
#include <vector>

#include "base/units.h"
#include "forecast/columns.h"
#include "trace/trace.h"

namespace spillway {

struct RehearsedStep {
  StepIndex step;
  std::uint32_t ops = 0;
  std::size_t kind = 0;     // in the order of first steps
  std::size_t samples = 0;  // of its kind before it: one for each size
  Signature signature;      // as known after it
  Bytes peak;
  Nanos time;               // of its ops
  struct Told {
    Bytes peak, margin;
    Nanos time;
  };
  std::optional<Told> told;  // beforehand; none: its kind was not known, or its size too far from all before
};

// The whole steps of the trace, in order.
[[nodiscard]] std::vector<RehearsedStep> rehearse(const Trace& trace);

}  // namespace spillway
