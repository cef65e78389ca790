// The planners by name: what a user may choose, and how each is called.
#pragma once

#include <span>
#include <string_view>

#include "plan/plan.h"

namespace spillway {

struct PlanPolicy {
  std::string_view name;
  // `from`: a plan of the same step for another budget, for those that go on from one.
  Plan (*plan)(const PlanRequest& request, const Plan& from);
  // Other ways to a plan, slower and often better: the best of them and `so_far`. Null for the papers' own, which stay as
  // their papers say and are not improved by trying either.
  Plan (*further)(const PlanRequest& request, const Plan& so_far) = nullptr;
};

[[nodiscard]] std::span<const PlanPolicy> plan_policies();
// Null when there is none of that name.
[[nodiscard]] const PlanPolicy* find_plan_policy(std::string_view name);

}  // namespace spillway
