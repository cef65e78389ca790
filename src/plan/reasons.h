// Why a plan does with each gap what it does, in words: how long nobody needs the bytes, and what either remedy costs.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace spillway {

// By gap of the plan.
[[nodiscard]] std::vector<std::string> explain(const PlanRequest& request, const Plan& plan);

}  // namespace spillway
