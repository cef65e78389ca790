#include "plan/outlook.h"

#include <algorithm>

#include "base/error.h"
#include "liveness/curve.h"
#include "liveness/pieces.h"
#include "liveness/steps.h"

namespace spillway {

OutlookPoint look_at(const OutlookRequest& request, Bytes budget) {
  const Trace trace = cut_lists(request.trace, budget / kListPieces);
  const auto whole = find_steady_step(trace);
  SPILLWAY_ENSURE(whole.has_value(), "the trace holds a whole step");
  const Liveness step(trace, *whole);
  const PlanRequest one{.step = step, .costs = request.costs, .budget = budget};
  Plan plan = request.policy.plan(one, {});
  if (request.policy.further != nullptr && !plan.gaps.empty()) plan = request.policy.further(one, plan);
  return {budget, plan.predicted};
}

std::vector<OutlookPoint> look_down(const OutlookRequest& request, int parts) {
  const auto whole = find_steady_step(request.trace);
  SPILLWAY_ENSURE(whole.has_value(), "the trace holds a whole step");
  const Liveness step(request.trace, *whole);
  const Bytes peak = live_curve(step).peak, floor = find_floor(step).bytes;
  std::vector<OutlookPoint> points;
  for (int part = parts; part > 0 && peak * part / parts > floor; --part) points.push_back(look_at(request, peak * part / parts));
  points.push_back(look_at(request, floor));
  for (std::size_t at = points.size() - 1; at-- > 0;) {
    if (is_better(points[at + 1].predicted, points[at].predicted)) points[at].predicted = points[at + 1].predicted;
  }
  return points;
}

}  // namespace spillway
