// What a step would take at other budgets: the predicted slowdown from all its memory down to the floor.
#pragma once

#include <vector>

#include "liveness/floor.h"
#include "plan/policies.h"
#include "trace/trace.h"

namespace spillway {

struct OutlookPoint {
  Bytes budget;
  Prediction predicted;
};

struct OutlookRequest {
  const Trace& trace;
  const PlanPolicy& policy;
  Costs costs;
};

// Ops over lists run in pieces of at most this part of the budget, as the torch adapter cuts them.
inline constexpr std::int64_t kListPieces = 8;

// For one budget. The trace holds a whole step.
[[nodiscard]] OutlookPoint look_at(const OutlookRequest& request, Bytes budget);

// By falling budget, in `parts` equal steps of the peak and then the floor. More memory never costs more: a plan for less
// that is faster is taken for more, too.
[[nodiscard]] std::vector<OutlookPoint> look_down(const OutlookRequest& request, int parts);

}  // namespace spillway
