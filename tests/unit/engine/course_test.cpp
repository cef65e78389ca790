#include "engine/course.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "liveness/liveness.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

// Steps that take these times, all as planned.
struct Walk {
  Stride stride;
  Nanos now;
  int asked = 0;

  void step(Nanos takes, bool as_planned = true, bool quiet = true, bool host_late = false) {
    now += takes;
    stride.note_step(as_planned, quiet, host_late, [this] { return ++asked, now; });
  }
  void steps(const std::vector<Nanos>& all) {
    for (const Nanos takes : all) step(takes);
  }
};

TEST(Stride, IsTheMeanOfTheShorterStretchOnceTheRunHasSettled) {
  Walk walk;
  walk.steps({90_ms, 70_ms, 50_ms, 10_ms, 11_ms, 300_ms, 12_ms, 12_ms});
  EXPECT_FALSE(walk.stride.time().has_value());
  walk.step(12_ms);
  EXPECT_EQ(walk.stride.time(), 12_ms);
}

TEST(Stride, WaitsForTheDeviceAtBordersOnlyAndNotAtAllOnceItIsKnown) {
  Walk walk;
  for (int i = 0; i < 40; ++i) walk.step(10_ms);
  EXPECT_EQ(walk.asked, 3);
}

TEST(Stride, AStepThatWentAnotherWayBeginsItAnew) {
  Walk walk;
  walk.steps({10_ms, 10_ms, 10_ms, 10_ms, 10_ms});
  EXPECT_TRUE(walk.stride.settled());
  walk.step(500_ms, /*as_planned=*/false);
  EXPECT_FALSE(walk.stride.settled());
  walk.steps({10_ms, 10_ms, 10_ms, 20_ms, 20_ms, 20_ms, 30_ms, 30_ms, 30_ms});
  EXPECT_EQ(walk.stride.time(), 20_ms);
}

// The host is late in these steps of nine, of which the last six are timed.
bool waits_for_host(const std::vector<int>& late_in) {
  Walk walk;
  for (int i = 0; i < 30; ++i) {
    const bool late = std::ranges::count(late_in, i) > 0 || i >= 9;  // what comes after them is not looked at
    walk.step(10_ms, /*as_planned=*/true, /*quiet=*/true, late);
  }
  return walk.stride.waits_for_host();
}

TEST(Stride, WaitsForAHostThatIsLateInMostOfTheTimedSteps) {
  EXPECT_FALSE(waits_for_host({}));
  EXPECT_FALSE(waits_for_host({0, 1, 2, 3, 6}));  // at first, and after the device was waited for
  EXPECT_TRUE(waits_for_host({3, 4, 5, 6, 7, 8}));
}

TEST(Stride, IsNotTimedWhileSomebodyPlans) {
  Walk walk;
  for (int i = 0; i < 20; ++i) walk.step(50_ms, /*as_planned=*/true, /*quiet=*/false);
  EXPECT_TRUE(walk.stride.settled());
  EXPECT_EQ(walk.asked, 0);
  EXPECT_EQ(walk.stride.tried(), 0);
  walk.steps({40_ms, 10_ms, 10_ms, 10_ms, 30_ms, 30_ms});
  EXPECT_FALSE(walk.stride.time().has_value());
  walk.step(30_ms);
  EXPECT_EQ(walk.stride.time(), 10_ms);
  EXPECT_EQ(walk.stride.tried(), 7);
}

// Of a step with one op.
std::shared_ptr<const Script> script_with(std::shared_ptr<const Places> places) {
  testing::StepMaker maker;
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.op("only", {});
    maker.end();
  }
  const RecordedSteps steps{.trace = maker.trace(), .keys = {1}, .shapes = {1}, .lean = {}, .timed = {}};
  return std::make_shared<const Script>(steps, Liveness(steps.trace, *find_step(steps.trace, StepRecorder::kStep)), Plan{}, 1_GiB, std::move(places));
}

TEST(Course, WithoutPlacesIsChangedForOneThatHasSome) {
  Course course;
  course.set(script_with(nullptr));
  EXPECT_TRUE(course.is_good(/*offered_places=*/false));
  EXPECT_FALSE(course.is_good(/*offered_places=*/true));
  course.set(script_with(std::make_shared<const Places>()));
  EXPECT_TRUE(course.is_good(/*offered_places=*/true));
  course.surprises = 1;
  EXPECT_FALSE(course.is_good(/*offered_places=*/true));
}

}  // namespace
}  // namespace spillway
