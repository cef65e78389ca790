// What a step would take at other budgets: the predicted slowdown from all its memory down to the floor, by bytes alone. A run's blocks
// have to lie somewhere, which takes more the tighter it is: the simulator tells that.
#pragma once

#include <span>
#include <vector>

#include "liveness/floor.h"
#include "plan/policies.h"
#include "trace/trace.h"

namespace spillway {

// A choice of a plan in the trace's own words.
struct ToldChoice {
  StorageId storage;
  OpPlace begin = 0, end = 0;  // of the gap, in ops of the step; from the step's op count on: of the next step
  Remedy remedy = Remedy::keep;
  OpPlace fetch_at = 0;  // as in PlannedGap, and what follows
  bool again = false;
};

struct OutlookPoint {
  Bytes budget;
  Prediction predicted;
  std::vector<ToldChoice> decisions;  // what does not stay
};

struct OutlookRequest {
  const Trace& trace;
  const PlanPolicy& policy;
  Costs costs;
  int tries = 0;  // changes tried afterwards, as a run does in the background between steps
};

// Ops over lists run in pieces of at most this part of the budget, as the torch adapter cuts them.
inline constexpr std::int64_t kListPieces = 8;

// For one budget. The trace holds a whole step.
[[nodiscard]] OutlookPoint look_at(const OutlookRequest& request, Bytes budget);

// The same for choices made elsewhere. Throws InputError for a gap the step has not, or a remedy that is not possible there.
[[nodiscard]] OutlookPoint judge_at(const OutlookRequest& request, Bytes budget, std::span<const ToldChoice> decisions);

// By falling budget, in `parts` equal steps of the peak and then the floor. More memory never costs more: a plan for less
// that is faster is taken for more, too.
[[nodiscard]] std::vector<OutlookPoint> look_down(const OutlookRequest& request, int parts);

}  // namespace spillway
