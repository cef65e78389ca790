// The planners of the papers, each as its paper says (and its file tells where it does not), under one interface.
//
// They are here to be compared with and to be chosen; none looks at a `from`.
#pragma once

#include "plan/plan.h"

namespace spillway {

[[nodiscard]] Plan plan_superneurons(const PlanRequest& request, const Plan& from = {});
[[nodiscard]] Plan plan_tensile(const PlanRequest& request, const Plan& from = {});
[[nodiscard]] Plan plan_capuchin(const PlanRequest& request, const Plan& from = {});
[[nodiscard]] Plan plan_mimose(const PlanRequest& request, const Plan& from = {});
[[nodiscard]] Plan plan_checkpoint(const PlanRequest& request, const Plan& from = {});

}  // namespace spillway
