// Why a plan does with each gap what it does, in words: how long nobody needs the bytes, and what either remedy costs; and which
// gaps it would rather do without.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace spillway {

// By gap of the plan.
[[nodiscard]] std::vector<std::string> explain(const PlanRequest& request, const Plan& plan);

// The plan's gaps, those first whose remedy takes the kernels longest for a byte, as long as the link has room and all ancestors are
// there; of equals the one that begins last.
[[nodiscard]] std::vector<std::uint32_t> dearest_first(const PlanRequest& request, const Plan& plan);

}  // namespace spillway
