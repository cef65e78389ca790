#include "engine/study.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace spillway {
namespace {

TEST(Study, DoesItsJobsInOrderOnAnotherThread) {
  std::vector<int> done;
  std::thread::id thread;
  Study study;
  for (int i = 0; i < 100; ++i) study.hand_over([&, i] { done.push_back(i), thread = std::this_thread::get_id(); });

  study.wait();

  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(Study, EndsWithNothingLeftUndone) {
  std::atomic<int> done = 0;
  {
    Study study;
    for (int i = 0; i < 100; ++i) study.hand_over([&] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(Study, OneThatWasNeverUsedEnds) {
  Study study;
  study.wait();
}

}  // namespace
}  // namespace spillway
