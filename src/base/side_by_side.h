// Pieces of work that do not depend on each other, on this thread and a few more of our own.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/signals.h"

namespace spillway {

// work(0), ..., work(count - 1), each once, in this order where there is one thread. All have ended when it returns; what the first of
// them threw is thrown here. Threads beside this one give way to others.
template <class Work>
void side_by_side(std::size_t count, std::size_t threads, Work work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto run = [&] {
    for (std::size_t at = next++; at < count; at = next++) {
      try {
        work(at);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!thrown) thrown = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < threads && thread < count; ++thread) {
      others.emplace_back([&] {
        leave_signals_to_others();
        give_way_to_others();
        run();
      });
    }
    run();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace spillway
