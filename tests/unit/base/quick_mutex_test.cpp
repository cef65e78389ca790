#include "base/quick_mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace spillway {
namespace {

TEST(QuickMutex, LetsOneInAtATime) {
  QuickMutex mutex;
  int counted = 0;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        const std::lock_guard lock(mutex);
        ++counted;
      }
    });
  }
  threads.clear();

  EXPECT_EQ(counted, 80'000);
}

TEST(QuickMutex, SaysWhenItIsTaken) {
  QuickMutex mutex;
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
}

// Whoever comes late sleeps until it is given back, and so does the next.
TEST(QuickMutex, WakesThoseWhoSleep) {
  QuickMutex mutex;
  int through = 0;
  mutex.lock();
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      const std::lock_guard lock(mutex);
      ++through;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  mutex.unlock();
  threads.clear();

  EXPECT_EQ(through, 3);
}

TEST(Change, WakesEverybodyWhoWaits) {
  QuickMutex mutex;
  Change changed;
  bool is_there = false;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      Change::Lock lock(mutex);
      while (!is_there) changed.wait_for(lock, std::chrono::hours(1));
    });
  }
  {
    const Change::Lock lock(mutex);
    is_there = true;
    changed.tell();
  }
}

TEST(Change, WaitsNoLongerThanAsked) {
  QuickMutex mutex;
  Change changed;
  Change::Lock lock(mutex);

  changed.wait_for(lock, std::chrono::milliseconds(1));

  EXPECT_TRUE(lock.owns_lock());
}

}  // namespace
}  // namespace spillway
