#include "engine/planner.h"

#include <pthread.h>
#include <signal.h>

#include "liveness/liveness.h"

namespace spillway {

namespace {

constexpr int kTriesARound = 2000;

// A script nobody could improve by this much more is good enough.
bool is_worth(const Prediction& better, const Prediction& than) {
  return better.over < than.over || better.time.count < than.time.count - than.time.count / 1000;
}

// Signals are for the threads that were there before.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

Planner::~Planner() {
  thread_.request_stop();
  changed_.notify_all();
}

void Planner::start(PlanTask task) {
  const bool at_once = task.at_once;
  {
    const std::lock_guard lock(mutex_);
    script_.reset();
    busy_ = true;
    if (!at_once) task_ = task;
    if (!at_once && !thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
  }
  if (!at_once) return changed_.notify_all();
  work(task);
  const std::lock_guard lock(mutex_);
  busy_ = false;
}

void Planner::cancel() {
  const std::lock_guard lock(mutex_);
  task_.reset();
  script_.reset();
  busy_ = false;
}

std::shared_ptr<const Script> Planner::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(script_, nullptr);
}

bool Planner::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

void Planner::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void Planner::run(std::stop_token stop) {
  block_signals();
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return task_.has_value(); })) return;
    const PlanTask task = std::move(*task_);
    task_.reset();
    lock.unlock();
    work(task);
    lock.lock();
    if (!task_) busy_ = false;
    changed_.notify_all();
  }
}

bool Planner::is_stale() const {
  const std::lock_guard lock(mutex_);
  return task_.has_value() || !busy_ || thread_.get_stop_token().stop_requested();
}

void Planner::publish(std::shared_ptr<const Script> script) {
  const std::lock_guard lock(mutex_);
  if (!task_ && busy_) script_ = std::move(script);
}

void Planner::work(const PlanTask& task) {
  if (task.anew) plan_ = {};
  const auto whole = find_step(task.steps->trace, StepRecorder::kStep);
  if (!whole || whole->ops == 0) return;
  const Liveness step(task.steps->trace, *whole);
  const PlanRequest request{.step = step, .costs = task.costs, .budget = task.budget};
  const auto offer = [&](Plan found) {
    if (!is_better(found.predicted, plan_.predicted)) return;
    const bool worth = is_worth(found.predicted, plan_.predicted);
    plan_ = std::move(found);
    if (worth) publish(std::make_shared<Script>(*task.steps, step, plan_, task.budget));
  };
  plan_ = task.policy->plan(request, plan_);
  publish(std::make_shared<Script>(*task.steps, step, plan_, task.budget));
  if (plan_.gaps.empty() || task.policy->further == nullptr) return;
  if (!is_stale()) offer(task.policy->further(request, plan_));
  for (int round = 0; round < task.rounds && !is_stale(); ++round) {
    offer(improve(request, plan_, kTriesARound, static_cast<std::uint32_t>(round)));
  }
}

}  // namespace spillway
