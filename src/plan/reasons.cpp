#include "plan/reasons.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/text.h"
#include "plan/problem.h"

namespace spillway {

namespace {

// Of the plain step; a gap may end in the next one.
Nanos idle_time(const Liveness& step, const Gap& gap) {
  const auto start_of = [&](OpPlace op) {
    const OpPlace ops = step.op_count();
    return op < ops ? step.starts()[op] : step.starts()[ops] + step.starts()[op - ops];
  };
  return start_of(gap.end) - start_of(gap.begin);
}

std::string price_of_move(const Problem& problem, GapPlace gap) {
  const Costs& costs = problem.costs();
  const Bytes size = problem.size(gap);
  const Nanos out = problem.copy_time(size, costs.out_nanos_per_byte), in = problem.copy_time(size, costs.in_nanos_per_byte);
  const Nanos lost{static_cast<std::int64_t>(problem.price_of_move(gap))};
  return to_text(problem.comes_back(gap) ? out + in : out) + " of the link and " + to_text(lost) + " of kernels";
}

// Nobody wants it again.
std::string explain_last_leaving(const std::string& idle, const std::string& move, Remedy remedy) {
  const std::string until = idle + " until it is gone, and not used again";
  return until + (remedy == Remedy::drop ? "; if it were, it could be made again" : "; out takes " + move);
}

std::string explain_one(const Problem& problem, GapPlace gap, Remedy remedy) {
  const std::string idle = "idle for " + to_text(idle_time(problem.step(), problem.gaps()[gap]));
  const std::string move = problem.may_move(gap) ? price_of_move(problem, gap) : "";
  const std::string rerun = problem.may_drop(gap) ? to_text(problem.rebuild_time(gap)) : "";
  if (!problem.comes_back(gap)) return explain_last_leaving(idle, move, remedy);
  if (remedy == Remedy::drop) return idle + "; running its ops again takes " + rerun + (move.empty() ? "" : ", moving it " + move);
  return idle + "; out and back takes " + move + (rerun.empty() ? ", and it cannot be made again" : ", making it again " + rerun);
}

// Nanoseconds a byte.
double price_of(const Problem& problem, GapPlace gap, Remedy remedy) {
  if (gap == kNoPlace || remedy == Remedy::keep) return 0;
  const double price = remedy == Remedy::move ? problem.price_of_move(gap) : static_cast<double>(problem.rebuild_time(gap).count);
  return price / static_cast<double>(std::max(problem.size(gap), 1_B).count);
}

}  // namespace

std::vector<std::string> explain(const PlanRequest& request, const Plan& plan) {
  const Problem problem(request);
  std::vector<std::string> reasons;
  for (const PlannedGap& planned : plan.gaps) {
    const GapPlace gap = problem.find(planned.gap);
    reasons.push_back(gap == kNoPlace ? "" : explain_one(problem, gap, planned.remedy));
  }
  return reasons;
}

std::vector<std::uint32_t> dearest_first(const PlanRequest& request, const Plan& plan) {
  const Problem problem(request);
  std::vector<double> prices;
  for (const PlannedGap& planned : plan.gaps) prices.push_back(price_of(problem, problem.find(planned.gap), planned.remedy));
  std::vector<std::uint32_t> order(plan.gaps.size());
  std::iota(order.rbegin(), order.rend(), 0U);
  std::ranges::stable_sort(order, std::greater{}, [&](std::uint32_t gap) { return prices[gap]; });
  return order;
}

}  // namespace spillway
