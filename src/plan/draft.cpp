#include "plan/draft.h"

#include <algorithm>

namespace spillway {

Draft::Draft(const PlanRequest& request) : problem_(request, Ends::by_access), timeline_(problem_), choices_(problem_.gap_count()) { judge(); }

void Draft::move(GapPlace at, OpPlace fetch_at) {
  choices_[at] = {Remedy::move, std::clamp(fetch_at, gap(at).begin, gap(at).end)};
}

Nanos Draft::start_of(OpPlace op) const {
  const OpPlace ops = step().op_count();
  return op < ops ? step().starts()[op] : step().starts()[ops] + step().starts()[std::min(op - ops, ops)];
}

OpPlace Draft::last_op_before(Nanos time, GapPlace at) const {
  OpPlace op = gap(at).end;
  while (op > gap(at).begin && start_of(op) > time) --op;
  return op;
}

bool Draft::covers(GapPlace at, OpPlace op) const {
  return (op >= gap(at).begin && op < gap(at).end) || op + step().op_count() < gap(at).end;
}

Nanos Draft::way_out(GapPlace at) const { return problem_.copy_time(problem_.size(at), problem_.costs().out_nanos_per_byte); }
Nanos Draft::way_in(GapPlace at) const { return problem_.copy_time(problem_.size(at), problem_.costs().in_nanos_per_byte); }

bool Draft::is_saved(GapPlace at) const {
  const Gap& over = gap(at);
  return over.end < step().op_count() && step().ops()[over.begin - 1].phase == Phase::forward && step().ops()[over.end].phase == Phase::backward;
}

Plan Draft::plan() const {
  Plan plan{.gaps = {}, .holds = holds_of(problem_, choices_), .predicted = outcome_.sum};
  for (GapPlace at = 0; at < gap_count(); ++at) {
    if (remedy(at) != Remedy::keep) plan.gaps.push_back({gap(at), choices_[at].remedy, choices_[at].fetch_at, choices_[at].again});
  }
  std::ranges::stable_sort(plan.gaps, {}, [](const PlannedGap& planned) { return planned.gap.begin; });
  return plan;
}

}  // namespace spillway
