// Whom to evict when memory is short and no plan says: a score per storage, the cheapest window of them leaves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace spillway {

enum class ReactivePolicy : std::uint8_t {
  lru,  // the longest unused leaves first, always by a move (SuperNeurons' tensor cache)
  dtr,  // cost / (size x staleness), by move or replay, whichever is cheaper (DTR)
};

[[nodiscard]] std::optional<ReactivePolicy> find_policy(std::string_view name);
[[nodiscard]] std::string_view name_of(ReactivePolicy policy);
// Every policy a user may name, planned ones first, in words: "hybrid, ..., dtr and lru".
[[nodiscard]] std::string known_policies();

struct Candidate {
  double staleness = 1;  // ops since its last use, at least 1; or how long until the next, where that is foretold
  double nanos = 0;             // what it costs to have it back
};

// Lower leaves sooner. Scores add up over a window of neighbours.
[[nodiscard]] double eviction_score(ReactivePolicy policy, const Candidate& candidate);

}  // namespace spillway
