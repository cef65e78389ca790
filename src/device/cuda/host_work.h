// Work of the host in a stream's order: what was enqueued before it is done when it runs, what comes after waits for it.
//
// It runs on the driver's callback thread and must not reach CUDA. The driver has one such thread for all streams, so a
// long piece of work (a write to the file tier) holds up the host work of other streams, never their kernels or copies.
// The first failure is kept: later work is skipped and `rethrow` tells it to everyone who asks from then on.
#pragma once

#include <cuda.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

namespace spillway {

class HostWork {
 public:
  HostWork() = default;
  HostWork(const HostWork&) = delete;  // enqueued work points here: outlive it
  HostWork& operator=(const HostWork&) = delete;

  void enqueue(CUstream on, std::function<void()> work);

  // Throws DeviceError when some work has failed.
  void rethrow() const {
    if (failed_.load(std::memory_order_acquire)) [[unlikely]] throw_failure();
  }

 private:
  struct Item;
  void run(const std::function<void()>& work) noexcept;
  [[noreturn]] void throw_failure() const;

  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;
  std::string failure_;
};

}  // namespace spillway
