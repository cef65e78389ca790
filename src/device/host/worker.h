// One copy stream of the host device: a thread that does what is enqueued, in order.
//
// Three things can be enqueued: a task, a tick, and a wait for a tick of another worker. A tick can only be waited for
// once it was recorded, so waits form no circle and every queue drains. Ticks are done in order:
//
//   done() <= recorded(), and everything enqueued before tick v has run once done() >= v
//
// A task that throws fails the worker: its later tasks are skipped, and every tick from then on is done but failed,
// here and on each worker that waits for such a tick. Nothing fails silently, nothing hangs. All functions from any
// thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <variant>

#include "device/host/bounce.h"
#include "device/tick_times.h"

namespace spillway {

// The host's monotonic clock.
[[nodiscard]] Nanos host_now();

class Worker {
 public:
  using Task = std::function<void(Bounce&)>;

  Worker();
  ~Worker();  // finish() first, where another worker may still wait for this one
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run(Task task);
  [[nodiscard]] std::uint64_t record();
  // `other` outlives this worker's queue.
  void wait_for(const Worker& other, std::uint64_t value);
  // Carries out what is enqueued and ends the thread. Nothing may be enqueued afterwards.
  void finish();

  [[nodiscard]] std::uint64_t recorded() const { return recorded_.load(std::memory_order_acquire); }
  [[nodiscard]] bool is_done(std::uint64_t value) const { return done_.load(std::memory_order_acquire) >= value; }
  void block_until(std::uint64_t value) const;
  // For a tick that is done: throws DeviceError if work before it failed.
  void check(std::uint64_t value) const;
  [[nodiscard]] Nanos time_of(std::uint64_t value) const;

  // The thread holds no lock between the two. A forked child has no such thread.
  void before_fork() const { mutex_.lock(); }
  void after_fork() const { mutex_.unlock(); }

 private:
  struct Mark { std::uint64_t value; };
  struct Wait { const Worker* other; std::uint64_t value; };
  using Work = std::variant<Task, Mark, Wait>;

  void enqueue(Work work);
  void loop();
  void carry_out(Work& work);
  void fail(const std::string& why);

  mutable std::mutex mutex_;                 // guards queue_, stopping_, times_ and the changes of recorded_ and done_
  std::condition_variable enqueued_;
  mutable std::condition_variable ticked_;
  std::deque<Work> queue_;
  bool stopping_ = false;
  TickTimes times_;
  std::atomic<std::uint64_t> recorded_ = 0, done_ = 0;
  std::atomic<std::uint64_t> failed_from_ = UINT64_MAX;  // the first tick after the failure
  std::string failure_;                                  // written once, before failed_from_
  Bounce bounce_;                                        // the thread's own
  std::thread thread_;                                   // last: starts when all else is there
};

}  // namespace spillway
