#include "plan/policies.h"

#include <algorithm>
#include <array>

namespace spillway {

namespace {

constexpr std::array kPolicies{
    PlanPolicy{.name = "hybrid", .plan = &plan_hybrid, .improves = true},
};

}  // namespace

std::span<const PlanPolicy> plan_policies() { return kPolicies; }

const PlanPolicy* find_plan_policy(std::string_view name) {
  const auto found = std::ranges::find(kPolicies, name, &PlanPolicy::name);
  return found == kPolicies.end() ? nullptr : &*found;
}

}  // namespace spillway
