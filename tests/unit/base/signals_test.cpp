#include "base/signals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace spillway {
namespace {

int rank_of_this_thread() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

TEST(GiveWayToOthers, IsTheCallingThreadsBusinessOnly) {
  const int before = rank_of_this_thread();
  int behind = before;
  std::thread([&] {
    give_way_to_others();
    behind = rank_of_this_thread();
  }).join();
  EXPECT_EQ(behind, std::max(before, 10));
  EXPECT_EQ(rank_of_this_thread(), before);
}

TEST(GiveWayToOthers, TwiceIsAsOnce) {
  std::thread([] {
    give_way_to_others();
    const int once = rank_of_this_thread();
    give_way_to_others();
    EXPECT_EQ(rank_of_this_thread(), once);
  }).join();
}

}  // namespace
}  // namespace spillway
