// The planners of the papers, each as its paper says (and its file tells where it does not), under one interface.
//
// They are here to be compared with and to be chosen; none looks at a `from`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace spillway {

[[nodiscard]] Plan plan_superneurons(const PlanRequest& request, const Plan& from = {});
[[nodiscard]] Plan plan_tensile(const PlanRequest& request, const Plan& from = {});
[[nodiscard]] Plan plan_capuchin(const PlanRequest& request, const Plan& from = {});
[[nodiscard]] Plan plan_mimose(const PlanRequest& request, const Plan& from = {});
[[nodiscard]] Plan plan_checkpoint(const PlanRequest& request, const Plan& from = {});

// SuperNeurons' recomputation over a chain of layers, as its section 3.4 counts it.
struct PaperLayer {
  Bytes forward;            // what it returns
  Bytes gradients;          // what flows into its backward and out of it
  Bytes backward;           // all its backward needs at once
  bool checkpoint = false;  // kept or moved, never run again
};
enum class Recomputation : std::uint8_t { speed, memory, cost_aware };
struct RecomputationCost {
  std::int64_t extra_runs = 0;
  Bytes peak;
};
[[nodiscard]] RecomputationCost count_recomputation(std::span<const PaperLayer> layers, Recomputation how);

}  // namespace spillway
