#include "engine/drift.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr int kSoon = 5 * 16;  // steps in which a drift is seen

struct Walk {
  Drift drift;
  Nanos now;
  int drifts = 0;

  void step(Nanos takes) {
    now += takes;
    drifts += drift.note_step(now) ? 1 : 0;
  }
  void steps(int count, Nanos takes) {
    for (int i = 0; i < count; ++i) step(takes);
  }
};

TEST(Drift, StepsThatTakeWhatTheyTookAreNone) {
  for (const Nanos takes : {9'100_us, 10_ms, 10'900_us}) {
    Walk walk;
    walk.steps(1000, takes);
    EXPECT_EQ(walk.drifts, 0);
  }
}

TEST(Drift, StepsThatBecomeLongerOrShorterAreOne) {
  for (const Nanos takes : {12_ms, 8_ms}) {
    Walk walk;
    walk.steps(100, 10_ms);
    walk.steps(kSoon, takes);
    EXPECT_EQ(walk.drifts, 1);
  }
}

TEST(Drift, APauseIsNone) {
  Walk walk;
  for (int i = 0; i < 20; ++i) {
    walk.steps(40, 10_ms);
    walk.step(50'000_ms);
  }
  EXPECT_EQ(walk.drifts, 0);
}

TEST(Drift, APauseInEveryWindowIsNone) {
  Walk walk;
  for (int i = 0; i < 1000; ++i) walk.step(i % 16 == 5 ? 60_ms : 10_ms);
  EXPECT_EQ(walk.drifts, 0);
}

TEST(Drift, AnotherScriptIsMeasuredByItself) {
  Walk walk;
  walk.steps(100, 10_ms);
  walk.drift.begin_script();
  walk.steps(1000, 12_ms);
  EXPECT_EQ(walk.drifts, 0);
}

TEST(Drift, AStepThatWentAnotherWayBeginsAnew) {
  Walk walk;
  walk.steps(100, 10_ms);
  for (int i = 0; i < 20; ++i) {
    walk.steps(kSoon / 2, 12_ms);
    walk.drift.begin_anew();
  }
  EXPECT_EQ(walk.drifts, 0);
}

TEST(Drift, WhoDriftsForEverIsBelievedEverLater) {
  Walk walk;
  for (int i = 0; i < 6; ++i) walk.steps(100 << i, i % 2 == 0 ? 12_ms : 10_ms);
  EXPECT_EQ(walk.drifts, 5);
  Walk restless;
  for (int i = 0; i < 64; ++i) restless.steps(100, i % 2 == 0 ? 12_ms : 10_ms);
  EXPECT_GE(restless.drifts, 1);
  EXPECT_LE(restless.drifts, 3);
}

}  // namespace
}  // namespace spillway
