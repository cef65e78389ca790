#include "engine/policy.h"

#include "plan/policies.h"

namespace spillway {

std::optional<ReactivePolicy> find_policy(std::string_view name) {
  if (name == "lru") return ReactivePolicy::lru;
  if (name == "dtr") return ReactivePolicy::dtr;
  return std::nullopt;
}

std::string_view name_of(ReactivePolicy policy) {
  return policy == ReactivePolicy::lru ? "lru" : "dtr";
}

std::string known_policies() {
  std::string names;
  for (const PlanPolicy& policy : plan_policies()) names += std::string(policy.name) + ", ";
  return names + "dtr and lru";
}

double eviction_score(ReactivePolicy policy, const Candidate& candidate) {
  // Steep, so that a window's score is near that of its most recently used member: recency decides, not the count.
  if (policy == ReactivePolicy::lru) return 1.0 / (candidate.staleness * candidate.staleness);
  // DTR divides by the size too; every window compared here frees the same size.
  return candidate.nanos / candidate.staleness;
}

}  // namespace spillway
