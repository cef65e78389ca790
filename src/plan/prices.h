// A first choice for every gap at once: memory has a price at each op that lacks it, and a gap is relieved where that pays.
//
//   relieved  <=>  its remedy's time < its size x the sum of the prices of the ops it covers
//
// Prices rise at the op that lacks most, just so far that enough gaps there find it worth while, until no op lacks any.
// Chains that meet and the order of copies on the link are left to the timeline.
#pragma once

#include <vector>

#include "plan/timeline.h"

namespace spillway {

// `plain`: the step with everything kept.
[[nodiscard]] std::vector<Remedy> choose_by_price(const Problem& problem, const Outcome& plain);

}  // namespace spillway
