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
  // It looks for other ways, and goes on by trying changes. The papers' own stay as their papers say.
  bool improves = false;
};

[[nodiscard]] std::span<const PlanPolicy> plan_policies();
// Null when there is none of that name.
[[nodiscard]] const PlanPolicy* find_plan_policy(std::string_view name);

}  // namespace spillway
