#include "engine/planning_time.h"

#include <gtest/gtest.h>

#include "device/fake/fake_device.h"

namespace spillway {
namespace {

class PlanningTimeTest : public ::testing::Test {
 protected:
  FakeDevice device{find_card("h200")};
  Nanos sum;
  PlanningTime time{device, sum};
};

TEST_F(PlanningTimeTest, APartInsideAnotherIsCountedOnce) {
  {
    const PlanningTime::Part outer(time);
    device.advance(3_ms);
    {
      const PlanningTime::Part inner(time);
      device.advance(5_ms);
    }
    device.advance(2_ms);
  }
  device.advance(40_ms);

  EXPECT_EQ(sum, 10_ms);
}

TEST_F(PlanningTimeTest, WhatIsWaitedForIsLeftOut) {
  {
    const PlanningTime::Part part(time);
    device.advance(3_ms);
    {
      const PlanningTime::Wait wait(time);
      device.advance(5_ms);
    }
    device.advance(2_ms);
  }
  const PlanningTime::Wait outside(time);
  device.advance(7_ms);

  EXPECT_EQ(sum, 5_ms);
}

TEST_F(PlanningTimeTest, APartThatIsOffCountsNothing) {
  const PlanningTime::Part part(time, /*on=*/false);
  device.advance(3_ms);
  const PlanningTime::Wait wait(time);

  EXPECT_EQ(sum, 0_ns);
}

}  // namespace
}  // namespace spillway
