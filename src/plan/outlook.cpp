#include "plan/outlook.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "liveness/curve.h"
#include "liveness/pieces.h"
#include "liveness/steps.h"
#include "plan/timeline.h"

namespace spillway {

namespace {

constexpr int kTriesToFit = 4000;  // where nothing fits so far

// By op of the step: as PlanRequest has it.
std::vector<Nanos> lean_times(const Trace& trace, const WholeStep& step) {
  std::vector<Nanos> times;
  for (std::size_t at = step.begin; at < step.end; ++at) {
    const auto* op = std::get_if<Op>(&trace.events[at]);
    if (op != nullptr && op->job == step.job) times.push_back(op->lean);
  }
  return times;
}

// The step as it runs in this budget.
struct CutStep {
  CutStep(const Trace& whole, Bytes budget) : trace(cut_lists(whole, budget / kListPieces)), step(trace, find(trace)) {}

  static WholeStep find(const Trace& trace) {
    const auto whole = find_steady_step(trace);
    SPILLWAY_ENSURE(whole.has_value(), "the trace holds a whole step");
    return *whole;
  }

  const Trace trace;
  const Liveness step;
  const std::vector<Nanos> lean = lean_times(trace, find(trace));
};

GapPlace find_gap(const Problem& problem, const ToldChoice& decision) {
  const auto found = std::ranges::find_if(problem.gaps(), [&](const Gap& gap) {
    return problem.step().storages()[gap.storage].id == decision.storage && gap.begin == decision.begin && gap.end == decision.end;
  });
  const auto name = "storage " + std::to_string(decision.storage.index) + " over ops " + std::to_string(decision.begin) + " to " + std::to_string(decision.end);
  if (found == problem.gaps().end()) throw InputError("the step has no such gap: " + name);
  const auto gap = static_cast<GapPlace>(found - problem.gaps().begin());
  if (decision.remedy == Remedy::move ? !problem.may_move(gap) : decision.remedy == Remedy::drop && !problem.may_drop(gap))
    throw InputError("not possible there: " + name);
  if (decision.fetch_at < decision.begin || decision.fetch_at > decision.end) throw InputError("fetched outside its gap: " + name);
  return gap;
}

}  // namespace

OutlookPoint look_at(const OutlookRequest& request, Bytes budget) {
  const CutStep cut(request.trace, budget);
  const PlanRequest one{.step = cut.step, .costs = request.costs, .budget = budget, .lean = cut.lean};
  Plan plan = request.policy.plan(one, {});
  if (request.policy.improves && !plan.gaps.empty()) {
    for (int way = 0; way < (plan.predicted.over > 0_B ? kOtherWays : kPatientWay); ++way) {
      if (Plan found = plan_another_way(one, way); is_better(found.predicted, plan.predicted)) plan = std::move(found);
    }
    plan = improve(one, plan, plan.predicted.over > 0_B ? std::max(request.tries, kTriesToFit) : request.tries);
  }
  OutlookPoint point{budget, plan.predicted, {}};
  for (const PlannedGap& planned : plan.gaps) {
    const Gap& gap = planned.gap;
    point.decisions.push_back({cut.step.storages()[gap.storage].id, gap.begin, gap.end, planned.remedy, planned.fetch_at, planned.again});
  }
  return point;
}

OutlookPoint judge_at(const OutlookRequest& request, Bytes budget, std::span<const ToldChoice> decisions) {
  const CutStep cut(request.trace, budget);
  const Problem problem({.step = cut.step, .costs = request.costs, .budget = budget, .lean = cut.lean});
  std::vector<Choice> choices(problem.gap_count());
  for (const ToldChoice& decision : decisions) choices[find_gap(problem, decision)] = {decision.remedy, decision.fetch_at, decision.again};
  return {budget, Timeline(problem).run(choices).sum, {decisions.begin(), decisions.end()}};
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
    if (is_better(points[at + 1].predicted, points[at].predicted)) {
      points[at].predicted = points[at + 1].predicted;
      points[at].decisions = points[at + 1].decisions;
    }
  }
  return points;
}

}  // namespace spillway
