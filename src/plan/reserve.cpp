#include "plan/reserve.h"

#include <algorithm>
#include <array>
#include <functional>

#include "plan/prices.h"
#include "plan/timeline.h"

namespace spillway {

namespace {

constexpr std::size_t kMostReserve = 256;  // gaps: whether they are wanted is looked at while the training thread waits
constexpr std::array<std::int64_t, 3> kGrowth{120, 150, 225};  // percent of what the step takes; attention grows by the square
constexpr Nanos kSlack = 30_us;  // as plans have it: kernels are not punctual

// Who leaves at a step's end is there in the step that is larger. Who is rebuilt from somebody that would have to be held stays.
std::vector<bool> find_open(const Problem& problem, const Plan& plan, std::span<const Choice> choices) {
  std::vector<bool> open(problem.gap_count());
  for (GapPlace at = 0; at < problem.gap_count(); ++at) {
    const Gap& gap = problem.gaps()[at];
    const bool held = std::ranges::find(plan.holds, gap.storage, &Hold::storage) != plan.holds.end();
    open[at] = choices[at].remedy == Remedy::keep && gap.end <= problem.step().op_count() && problem.held_for(at).empty() && !(held && !problem.comes_back(at));
  }
  return open;
}

// As late as one link allows where all of them come back, the plan's too.
void place_returns(const Problem& problem, std::span<const Nanos> starts, std::span<const GapPlace> reserve, std::vector<Choice>& choices) {
  const OpPlace ops = problem.step().op_count();
  std::vector<bool> is_reserve(problem.gap_count());
  for (const GapPlace gap : reserve) is_reserve[gap] = true;
  std::vector<GapPlace> moved;
  for (GapPlace gap = 0; gap < problem.gap_count(); ++gap) {
    if (choices[gap].remedy == Remedy::move && problem.comes_back(gap)) moved.push_back(gap);
  }
  std::ranges::stable_sort(moved, std::greater{}, [&](GapPlace gap) { return problem.gaps()[gap].end % ops; });
  Nanos link_free = starts[ops];
  for (const GapPlace gap : moved) {
    const Gap& over = problem.gaps()[gap];
    const Nanos takes = problem.copy_time(problem.size(gap), problem.costs().in_nanos_per_byte);
    link_free = std::min(starts[over.end % ops], link_free) - takes;
    if (!is_reserve[gap]) continue;
    const auto after = std::ranges::upper_bound(starts.first(ops), link_free - kSlack) - starts.begin();
    choices[gap].fetch_at = std::clamp(static_cast<OpPlace>(std::max<std::ptrdiff_t>(after - 1, 0)), over.begin, over.end);
  }
}

}  // namespace

std::vector<PlannedGap> plan_reserve(const PlanRequest& request, const Plan& plan) {
  const Problem problem(request);
  Timeline timeline(problem);
  std::vector<Choice> choices = choices_of(problem, plan);
  std::vector<bool> open = find_open(problem, plan, choices);
  std::vector<GapPlace> reserve;
  for (const std::int64_t growth : kGrowth) {
    const Outcome now = timeline.run(choices);
    for (const auto& [gap, remedy] : choose_more_by_price(problem, now, choices, open, request.budget * 100 / growth)) {
      if (reserve.size() == kMostReserve) break;
      choices[gap] = {.remedy = remedy, .fetch_at = problem.gaps()[gap].end};
      open[gap] = false;
      reserve.push_back(gap);
    }
    place_returns(problem, now.starts, reserve, choices);
  }
  std::vector<PlannedGap> planned;
  for (const GapPlace gap : reserve) planned.push_back({.gap = problem.gaps()[gap], .remedy = choices[gap].remedy, .fetch_at = choices[gap].fetch_at});
  return planned;
}

}  // namespace spillway
