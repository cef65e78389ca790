#include "engine/host_pace.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

Prediction promise(Nanos time, Nanos effort) {
  Prediction promise;
  promise.time = time;
  promise.effort = effort;
  return promise;
}

TEST(HostPace, AHostThatKeepsUpIsNoNews) {
  HostPace pace;
  EXPECT_FALSE(pace.observe(27_ms, /*waits=*/true, promise(26_ms, 4_ms)));
  EXPECT_FALSE(pace.observe(20_ms, /*waits=*/true, promise(26_ms, 4_ms)));  // faster than planned: not the host's doing
  EXPECT_EQ(pace.host_step(), 0_ns);
}

TEST(HostPace, AStepThatTakesLongWithTheHostAheadIsNotTheHostsDoing) {
  HostPace pace;
  EXPECT_FALSE(pace.observe(38_ms, /*waits=*/false, promise(26_ms, 4_ms)));
  EXPECT_EQ(pace.host_step(), 0_ns);
}

// By a plan that promised 38 because of the host, the card takes 37: as long as that hides behind the host nothing makes it less.
TEST(HostPace, AHostThatIsAheadAgainHasNoTimeOfItsOwn) {
  HostPace pace;
  EXPECT_TRUE(pace.observe(38_ms, /*waits=*/true, promise(26_ms, 4_ms)));
  EXPECT_TRUE(pace.observe(37_ms, /*waits=*/false, promise(38_ms, 4_ms)));
  EXPECT_EQ(pace.host_step(), 0_ns);
}

TEST(HostPace, WhatALateStepTakesWithoutItsEffortIsTheHostsOwnTime) {
  HostPace pace;
  EXPECT_TRUE(pace.observe(38_ms, /*waits=*/true, promise(26_ms, 4_ms)));
  EXPECT_EQ(pace.host_step(), 34_ms);
}

TEST(HostPace, AHostThatWasLateMayCatchUp) {
  HostPace pace;
  EXPECT_TRUE(pace.observe(38_ms, /*waits=*/true, promise(26_ms, 4_ms)));
  EXPECT_FALSE(pace.observe(37_ms, /*waits=*/true, promise(38_ms, 4_ms)));
  EXPECT_TRUE(pace.observe(31_ms, /*waits=*/true, promise(38_ms, 4_ms)));
  EXPECT_EQ(pace.host_step(), 27_ms);
}

TEST(HostPace, AHostWhosePaceKeepsChangingIsNotFollowedForEver) {
  HostPace pace;
  int followed = 0;
  for (int i = 0; i < 20; ++i) followed += pace.observe(i % 2 == 0 ? 40_ms : 20_ms, /*waits=*/true, promise(30_ms, 1_ms)) ? 1 : 0;
  EXPECT_EQ(followed, 4);
}

}  // namespace
}  // namespace spillway
