// The private pools (graph captures, user MemPools) that now claim the memory of some streams or threads.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

namespace spillway {

class PrivatePools {
 public:
  using Filter = std::function<bool(cudaStream_t)>;

  void open(c10::MempoolId_t id, Filter filter) {
    const std::lock_guard lock(mutex_);
    open_.push_back({id, std::move(filter)});
    count_ = open_.size();
  }

  void close(c10::MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(open_, id, &Open::id);
    if (found != open_.end()) open_.erase(found);
    count_ = open_.size();
  }

  // One load; asked at every allocation.
  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

  [[nodiscard]] bool claims(cudaStream_t stream) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(open_, [&](const Open& pool) { return pool.filter(stream); });
  }

 private:
  struct Open {
    c10::MempoolId_t id;
    Filter filter;
  };

  mutable std::mutex mutex_;
  std::vector<Open> open_;
  std::atomic<std::size_t> count_ = 0;
};

}  // namespace spillway
