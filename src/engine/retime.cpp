// How long ops take, measured again in a step that goes by a plan.
//
// Note [Times of a step without a plan]
// Before there is a plan the host makes room as it goes, so the card often waits for it, and an op's time holds some of that
// waiting: up to a fifth of a step. A plan made from such times hides copies behind work that is not there. Once the run has
// settled in its first plan the host runs ahead, and one step is measured again. Measuring every op slows the host down, too,
// so before that step the device is given nothing to do for as long as a step takes, within reason.
#include <algorithm>
#include <numeric>

#include "engine/engine.h"

namespace spillway {

namespace {

constexpr int kMostRetimings = 3;         // of one recorded step
constexpr std::int64_t kFarFromPlan = 20;  // a part of a step's time
constexpr Nanos kMostLead = 500_ms;
constexpr double kMostBesideCopies = 0.5;  // of the kernels' time

}  // namespace

// Whether the next step's ops are measured.
bool Engine::is_time_to_retime() const {
  if (!recorded_ || !course_.script || !course_.stride.settled() || retimings_ >= kMostRetimings || course_.promise.over > 0_B) return false;
  if (std::ranges::count(recorded_->timed, true) == 0) return false;
  const std::optional<Nanos> took = course_.stride.time();
  const Nanos planned = course_.promise.time;
  return retimings_ == 0 || (took && std::abs((*took - planned).count) > planned.count / kFarFromPlan && !course_.judged);
}

Nanos Engine::wanted_lead() const { return retimes_ ? std::min(course_.promise.time, kMostLead) : 0_ns; }

void Engine::retime(const std::vector<Nanos>& durations, Lock& lock) {
  ++retimings_;
  course_.judged = course_.stride.time().has_value();
  if (std::ssize(durations) != std::ranges::count(recorded_->timed, true)) return;
  // Kernels beside the plan's copies were slower by what those are said to cost.
  const double price = static_cast<double>(course_.script->predicted().moved.count) * (options_.costs.out_price + options_.costs.in_price);
  const double whole = static_cast<double>(std::accumulate(durations.begin(), durations.end(), 0_ns).count);
  const double alone = 1 - std::min(price / std::max(whole, 1.0), kMostBesideCopies);
  std::vector<Nanos> times;
  for (const Nanos time : durations) times.emplace_back(static_cast<std::int64_t>(static_cast<double>(time.count) * alone));
  // Longer than before: the host was late this time, by more than its lead, unless settled steps are longer as well.
  const Nanos before = time_of(*recorded_);
  const bool longer = std::accumulate(times.begin(), times.end(), 0_ns).count > before.count + before.count / kFarFromPlan;
  const bool drifted = std::exchange(course_.drifted, false);
  if (longer && (!drifted || course_.stride.waits_for_host())) return;
  if (drifted) recorded_time_.reset();  // without a plan it would be another as well
  auto steps = std::make_shared<RecordedSteps>(*recorded_);
  set_times(*steps, times);
  recorded_ = steps;
  start_planning(SearchFrom::everywhere, /*outdated=*/false);
  remember_later(steps, lock);
}

// Steps take another time than they did by the same script: how long is seen anew, and if it is not what the plan says, so is what
// ops take.
void Engine::follow_drift(bool as_planned) {
  if (!as_planned || !course_.stride.time() || retimings_ == 0 || planner_.busy()) return course_.drift.begin_anew();
  if (!course_.drift.note_step(device_.now())) return;
  course_.stride = {};
  course_.judged = false;
  course_.drifted = true;
  retimings_ = std::min(retimings_, 1);
}

// Only where the card's own times were measured while the host was ahead: otherwise nobody knows who was late.
void Engine::follow_host() {
  const std::optional<Nanos> took = course_.stride.time();
  if (!took || retimings_ == 0 || retimes_ || planner_.busy() || course_.before) return;
  const bool first = pace_.host_step() == 0_ns;
  if (!pace_.observe(*took, course_.stride.waits_for_host(), course_.promise)) return;
  course_.stride = {};
  start_planning(first ? SearchFrom::everywhere : SearchFrom::choices, /*outdated=*/false);
}

}  // namespace spillway
