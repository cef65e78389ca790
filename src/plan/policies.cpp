#include "plan/policies.h"

#include <algorithm>
#include <array>

#include "plan/papers.h"

namespace spillway {

namespace {

constexpr std::array kPolicies{
    PlanPolicy{.name = "hybrid", .plan = &plan_hybrid, .improves = true},
    PlanPolicy{.name = "superneurons", .plan = &plan_superneurons},
    PlanPolicy{.name = "tensile", .plan = &plan_tensile},
    PlanPolicy{.name = "capuchin", .plan = &plan_capuchin},
    PlanPolicy{.name = "mimose", .plan = &plan_mimose},
    PlanPolicy{.name = "checkpoint", .plan = &plan_checkpoint},
};

}  // namespace

std::span<const PlanPolicy> plan_policies() { return kPolicies; }

const PlanPolicy* find_plan_policy(std::string_view name) {
  const auto found = std::ranges::find(kPolicies, name, &PlanPolicy::name);
  return found == kPolicies.end() ? nullptr : &*found;
}

}  // namespace spillway
