#include "plan/chosen.h"

#include <algorithm>

#include "plan/timeline.h"

namespace spillway {

namespace {

bool is_possible(const Problem& problem, GapPlace gap, const PlannedGap& planned) {
  if (gap == kNoPlace || planned.fetch_at < planned.gap.begin || planned.fetch_at > planned.gap.end) return false;
  if (planned.remedy == Remedy::move) return problem.may_move(gap);
  return planned.remedy == Remedy::drop && problem.may_drop(gap);
}

}  // namespace

std::optional<Plan> plan_as_chosen(const PlanRequest& request, std::span<const PlannedGap> chosen) {
  const Problem problem(request);
  std::vector<Choice> choices(problem.gap_count());
  Plan plan;
  for (const PlannedGap& planned : chosen) {
    const GapPlace gap = problem.find(planned.gap);
    if (!is_possible(problem, gap, planned) || choices[gap].remedy != Remedy::keep) return std::nullopt;
    choices[gap] = {planned.remedy, planned.fetch_at, planned.again};
    plan.gaps.push_back(planned);
  }
  std::ranges::stable_sort(plan.gaps, {}, [](const PlannedGap& planned) { return planned.gap.begin; });
  plan.holds = holds_of(problem, choices);
  plan.predicted = Timeline(problem).run(choices).sum;
  return plan;
}

}  // namespace spillway
