// How long ops take, measured again in a step that goes by a plan.
//
// Note [Times of a step without a plan]
// Before there is a plan the host makes room as it goes, so the card often waits for it, and an op's time holds some of that
// waiting: up to a fifth of a step. A plan made from such times hides copies behind work that is not there. Once the run has
// settled in its first plan the host runs ahead, and one step is measured again.
#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace spillway {

namespace {

constexpr int kMostRetimings = 3;         // of one recorded step
constexpr std::int64_t kFarFromPlan = 20;  // a part of a step's time

}  // namespace

// Whether the next step's ops are measured.
bool Engine::is_time_to_retime() {
  if (!recorded_ || !course_.script || !course_.stride.settled() || retimings_ >= kMostRetimings) return false;
  if (std::ranges::count(recorded_->timed, true) == 0) return false;
  const std::optional<Nanos> took = course_.stride.time();
  const Nanos planned = course_.promise.time;
  return retimings_ == 0 || (took && std::abs((*took - planned).count) > planned.count / kFarFromPlan && !std::exchange(course_.judged, true));
}

void Engine::retime(const std::vector<Nanos>& durations, Lock& lock) {
  ++retimings_;
  if (std::ssize(durations) != std::ranges::count(recorded_->timed, true)) return;
  auto steps = std::make_shared<RecordedSteps>(*recorded_);
  // Kernels beside the plan's copies were slower by what those are said to cost.
  const Costs& costs = options_.costs;
  const double moved = static_cast<double>(course_.script->predicted().moved.count) * (costs.out_price + costs.in_price);
  double all = 0;
  for (const Nanos time : durations) all += static_cast<double>(time.count);
  std::vector<Nanos> alone;
  for (const Nanos time : durations) alone.emplace_back(static_cast<std::int64_t>(static_cast<double>(time.count) * (1 - moved / std::max(all, 2 * moved + 1))));
  set_times(*steps, alone);
  recorded_ = steps;
  start_planning(/*anew=*/false, /*outdated=*/false);
  remember_later(steps, lock);
}

}  // namespace spillway
