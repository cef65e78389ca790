#include "engine/doubt.h"

#include <gtest/gtest.h>

#include "support/step_maker.h"

namespace spillway {
namespace {

Prediction promise(Nanos time, Bytes over = 0_B) {
  Prediction promise;
  promise.time = time;
  promise.over = over;
  return promise;
}

TEST(Doubt, APlanThatKeepsAGoodPromiseIsNotDoubted) {
  EXPECT_FALSE(Doubt::is_due(50_ms, promise(50_ms), /*recorded=*/52_ms, /*host_late=*/false));
  EXPECT_FALSE(Doubt::is_due(52_ms, promise(50_ms), /*recorded=*/52_ms, /*host_late=*/false));
}

TEST(Doubt, OneThatDoesNotIsUnlessItIsMuchFasterAllTheSame) {
  EXPECT_TRUE(Doubt::is_due(53_ms, promise(50_ms), /*recorded=*/52_ms, /*host_late=*/false));
  EXPECT_FALSE(Doubt::is_due(53_ms, promise(50_ms), /*recorded=*/90_ms, /*host_late=*/false));
}

TEST(Doubt, SoIsOneThatPromisedNothing) {
  EXPECT_TRUE(Doubt::is_due(50_ms, promise(50_ms, 1_MiB), /*recorded=*/52_ms, /*host_late=*/false));  // it lacks memory
  EXPECT_TRUE(Doubt::is_due(54_ms, promise(54_ms), /*recorded=*/52_ms, /*host_late=*/false));         // slower than none
  EXPECT_TRUE(Doubt::is_due(50_ms, promise(50_ms), /*recorded=*/52_ms, /*host_late=*/true));          // the host's time is a guess
  EXPECT_FALSE(Doubt::is_due(40_ms, promise(40_ms, 1_MiB), /*recorded=*/52_ms, /*host_late=*/true));
}

class Without {
 public:
  // Whether steps by the plan, of 50 ms, are found to be shorter than these.
  std::optional<bool> steps(const std::vector<Nanos>& all) {
    Doubt doubt;
    testing::StepMaker maker;
    maker.begin();
    maker.birth("a", 1_MiB);
    maker.op("make", {.out = {"a"}});
    maker.death("a");
    maker.end();
    RecordedSteps steps;
    steps.trace = maker.trace();
    const Liveness step(steps.trace, *find_steady_step(steps.trace));
    doubt.begin(std::make_shared<const Script>(steps, step, Plan{}, 1_GiB), 50_ms);
    EXPECT_TRUE(doubt.on());
    std::optional<bool> better;
    Nanos now;
    for (const Nanos takes : all) {
      EXPECT_FALSE(better.has_value());
      now += takes;
      better = doubt.note_step([&] { return now; });
    }
    EXPECT_NE(doubt.take(), nullptr);
    EXPECT_FALSE(doubt.on());
    return better;
  }
};

TEST(Doubt, TheFirstStepsWithoutThePlanDoNotCount) {
  EXPECT_EQ(Without().steps({900_ms, 900_ms, 49_ms, 49_ms, 49_ms}), false);
  EXPECT_EQ(Without().steps({9_ms, 9_ms, 51_ms, 51_ms, 51_ms}), true);
  EXPECT_EQ(Without().steps({9_ms, 9_ms, 51_ms, 51_ms}), std::nullopt);
}

}  // namespace
}  // namespace spillway
