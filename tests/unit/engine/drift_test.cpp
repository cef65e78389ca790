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
    drifts += drift.note_step(/*settled=*/10_ms, now) ? 1 : 0;
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

TEST(Drift, AStepThatWentAnotherWayBeginsAnew) {
  Walk walk;
  for (int i = 0; i < 20; ++i) {
    walk.steps(kSoon / 2, 12_ms);
    walk.drift.begin_anew();
  }
  EXPECT_EQ(walk.drifts, 0);
}

TEST(Drift, WhoDriftsForEverIsBelievedEverLater) {
  Walk walk;
  walk.steps(64 * 64, 12_ms);
  EXPECT_GE(walk.drifts, 4);
  EXPECT_LE(walk.drifts, 7);
}

}  // namespace
}  // namespace spillway
