#include "device/host/worker.h"


#include <chrono>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/signals.h"

namespace spillway {

Nanos host_now() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count()};
}

Worker::Worker() : thread_([this] { loop(); }) {}

Worker::~Worker() {
  if (thread_.joinable()) finish();
}

void Worker::enqueue(Work work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  enqueued_.notify_one();
}

void Worker::run(Task task) { enqueue(std::move(task)); }

void Worker::wait_for(const Worker& other, std::uint64_t value) { enqueue(Wait{&other, value}); }

std::uint64_t Worker::record() {
  std::uint64_t value = 0;
  {
    const std::lock_guard lock(mutex_);
    value = recorded_.load(std::memory_order_relaxed) + 1;
    queue_.push_back(Mark{value});
    recorded_.store(value, std::memory_order_release);
  }
  enqueued_.notify_one();
  return value;
}

void Worker::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  enqueued_.notify_one();
  thread_.join();
}

void Worker::loop() {
  leave_signals_to_others();
  std::unique_lock lock(mutex_);
  while (true) {
    enqueued_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    carry_out(work);
    work = Mark{};  // a task's captures go before the lock is taken
    lock.lock();
  }
}

void Worker::carry_out(Work& work) {
  if (const Mark* mark = std::get_if<Mark>(&work)) {
    {
      const std::lock_guard lock(mutex_);
      times_.note(mark->value, host_now());
      done_.store(mark->value, std::memory_order_release);
    }
    ticked_.notify_all();
    return;
  }
  try {
    if (const Wait* wait = std::get_if<Wait>(&work)) {
      wait->other->block_until(wait->value);
      wait->other->check(wait->value);
    } else if (failed_from_.load(std::memory_order_relaxed) == UINT64_MAX) {
      std::get<Task>(work)(bounce_);
    }
  } catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("a task of a copy stream failed without a word");
  }
}

void Worker::fail(const std::string& why) {
  if (failed_from_.load(std::memory_order_relaxed) != UINT64_MAX) return;
  failure_ = why;
  failed_from_.store(done_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void Worker::block_until(std::uint64_t value) const {
  if (is_done(value)) return;
  std::unique_lock lock(mutex_);
  ticked_.wait(lock, [&] { return is_done(value); });
}

void Worker::check(std::uint64_t value) const {
  if (value >= failed_from_.load(std::memory_order_acquire)) throw DeviceError(failure_);
}

Nanos Worker::time_of(std::uint64_t value) const {
  const std::lock_guard lock(mutex_);
  return times_.at(value, recorded_.load(std::memory_order_relaxed), done_.load(std::memory_order_relaxed));
}

}  // namespace spillway
