// What would leave besides what a plan has leave, if the step were larger than the one it was made for.
//
// Such steps come before there is a plan for them. The plan stays as it is: a search found it; what is missing is found by prices, in
// the time the plan leaves on the link.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace spillway {

// Gaps of this step alone that the plan keeps: first those that would be wanted first. Each can leave by itself: it comes back in time
// if all others do, and nobody has to be held for it.
[[nodiscard]] std::vector<PlannedGap> plan_reserve(const PlanRequest& request, const Plan& plan);

}  // namespace spillway
