// A thread of its own for what a step teaches: jobs one after the other, in the order they came.
//
// The training thread only hands over. Jobs take the engine's lock themselves where they touch what is the engine's, and
// never for long.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace spillway {

class Study {
 public:
  using Job = std::function<void()>;

  Study() = default;
  // What was handed over is done first: the next run may be waiting for it.
  ~Study();
  Study(const Study&) = delete;
  Study& operator=(const Study&) = delete;

  void hand_over(Job job);
  // Until nothing is left to do.
  void wait();
  // The thread holds no lock between the two. A forked child has no such thread.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> jobs_;
  bool busy_ = false;
  std::jthread thread_;
};

}  // namespace spillway
