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

// What that makes of the step, in some tens of milliseconds for thousands of ops: something to follow while a better plan is looked
// for. Where it lacks by the timeline, prices are for a little less memory; it may still lack.
[[nodiscard]] Plan plan_by_price(const PlanRequest& request);

}  // namespace spillway
