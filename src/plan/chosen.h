// A plan from choices that were made elsewhere: by a run before this one, say.
#pragma once

#include <optional>
#include <span>

#include "plan/plan.h"

namespace spillway {

// The plan that makes these choices and keeps all else, judged as things are now. Empty: they are not choices this step
// leaves, each at most once.
[[nodiscard]] std::optional<Plan> plan_as_chosen(const PlanRequest& request, std::span<const PlannedGap> chosen);

}  // namespace spillway
