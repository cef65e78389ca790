// A first choice for every gap at once: memory has a price at each op that lacks it, and a gap is relieved where that pays.
//
//   relieved  <=>  its remedy's time < its size x the sum of the prices of the ops it covers
//
// Prices rise at the op that lacks most, just so far that enough gaps there find it worth while, until no op lacks any.
// Chains that meet and the order of copies on the link are left to the timeline.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "plan/timeline.h"

namespace spillway {

// `plain`: the step with everything kept.
[[nodiscard]] std::vector<Remedy> choose_by_price(const Problem& problem, const Outcome& plain);

// What leaves besides, where choices were made and each op is to have this budget, in the order of the needs it is for: of the gaps
// that are open, and as far as the link has time left. `now`: the step with those choices.
[[nodiscard]] std::vector<std::pair<GapPlace, Remedy>> choose_more_by_price(const Problem& problem, const Outcome& now, std::span<const Choice> made,
                                                                            const std::vector<bool>& open, Bytes budget);

// What the first choice makes of the step, in some tens of milliseconds for thousands of ops: something to follow while a better plan is looked
// for. Where it lacks by the timeline, prices are for a little less memory; it may still lack.
[[nodiscard]] Plan plan_by_price(const PlanRequest& request);

}  // namespace spillway
