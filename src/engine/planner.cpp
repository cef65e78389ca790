#include "engine/planner.h"

#include "base/signals.h"
#include "engine/plan_work.h"
#include "liveness/liveness.h"

namespace spillway {

Planner::~Planner() {
  thread_.request_stop();
  changed_.notify_all();
}

void Planner::start(PlanTask task) {
  const bool at_once = task.at_once;
  {
    const std::lock_guard lock(mutex_);
    script_.reset();
    standing_.reset();
    busy_ = true;
    asked_ = std::chrono::steady_clock::now();
    tells_time_ = !at_once;
    awaits_first_ = !task.foreseen && (awaits_first_ || task.from == SearchFrom::nothing);
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

std::optional<Prediction> Planner::offer() const {
  const std::lock_guard lock(mutex_);
  return script_ ? std::optional(script_->predicted()) : std::nullopt;
}

bool Planner::offers_places() const {
  const std::lock_guard lock(mutex_);
  return script_ && script_->places();
}

std::optional<Prediction> Planner::take_standing() {
  const std::lock_guard lock(mutex_);
  return std::exchange(standing_, std::nullopt);
}

std::optional<FirstPlan> Planner::first() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

std::shared_ptr<const Script> Planner::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(script_, nullptr);
}

bool Planner::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

void Planner::wait_for_first(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [this] { return script_ || !busy_; });
}

void Planner::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void Planner::run(std::stop_token stop) {
  leave_signals_to_others();
  give_way_to_others();
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

void Planner::publish(std::shared_ptr<Script> script) {
  const std::lock_guard lock(mutex_);
  if (!task_ && busy_) {
    if (tells_time_) script->set_took({std::chrono::nanoseconds(std::chrono::steady_clock::now() - asked_).count()});
    if (std::exchange(awaits_first_, false)) first_ = FirstPlan{script->predicted(), script->took()};
    script_ = std::move(script);
  }
  changed_.notify_all();
}

void Planner::work(const PlanTask& task) {
  if (task.from == SearchFrom::nothing) plan_ = {};
  else if (plan_.gaps.empty() && task.standing) plan_ = task.standing->plan();  // another run's
  const auto whole = find_step(task.steps->trace, StepRecorder::kStep);
  if (!whole || whole->ops == 0) return;
  const std::shared_ptr<const Liveness> step = task.foreseen ? task.foreseen : std::make_shared<const Liveness>(task.steps->trace, *whole);
  PlanWork work(task, *step, plan_, {.is_stale = [this] { return is_stale(); }, .is_untaken = [this] { return offer().has_value(); },
                                     .publish = [this](std::shared_ptr<Script> script) { publish(std::move(script)); }});
  if (work.standing()) {
    const std::lock_guard lock(mutex_);
    if (!task_) standing_ = work.standing();
  }
  work.run();
}

}  // namespace spillway
