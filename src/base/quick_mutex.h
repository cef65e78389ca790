// A lock for books that are looked into a few times per operator and held for less than a microsecond.
//
// Free, it costs one atomic instruction to take and one to give back, inline; std::mutex is a call into the C library each way,
// which was an eighth of the time of a small operator (perf over `bench/op_cost.py`). Whoever finds it taken looks again a
// little while and then sleeps in the kernel.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace spillway {

class QuickMutex {
 public:
  QuickMutex() = default;
  QuickMutex(const QuickMutex&) = delete;
  QuickMutex& operator=(const QuickMutex&) = delete;

  void lock() {
    if (!try_lock()) [[unlikely]] wait();
  }
  [[nodiscard]] bool try_lock() {
    int free = kFree;
    return state_.compare_exchange_strong(free, kTaken, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kWanted) [[unlikely]] state_.notify_one();
  }

 private:
  static constexpr int kFree = 0, kTaken = 1, kWanted = 2;  // wanted: taken, and somebody may sleep
  static constexpr int kLooks = 100;  // about as long as the books are held

  void wait() {
    for (int looks = 0; looks < kLooks; ++looks) {
      if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
    }
    while (state_.exchange(kWanted, std::memory_order_acquire) != kFree) state_.wait(kWanted, std::memory_order_relaxed);
  }

  std::atomic<int> state_ = kFree;
};

// Wakes those who wait for what a QuickMutex guards to change; costs nothing when nobody does. Every call with the lock held.
class Change {
 public:
  using Lock = std::unique_lock<QuickMutex>;

  void wait_for(Lock& lock, std::chrono::milliseconds most) {
    ++sleepers_;
    changed_->wait_for(lock, most);
    --sleepers_;
  }
  void tell() {
    ++count_;
    if (sleepers_ > 0) changed_->notify_all();
  }
  // How often it was told.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  // In a forked child: whoever slept is not here, and may have been in the middle of it.
  void forget() {
    (void)changed_.release();
    changed_ = std::make_unique<std::condition_variable_any>();
    sleepers_ = 0;
  }

 private:
  std::unique_ptr<std::condition_variable_any> changed_ = std::make_unique<std::condition_variable_any>();
  int sleepers_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace spillway
