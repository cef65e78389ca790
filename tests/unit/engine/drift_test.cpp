#include "engine/drift.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway {
namespace {

constexpr int kPause = 64;

// Steps on a device whose clock is told, and which is `behind` so many steps.
struct Walk {
  Drift drift;
  int behind = 0, marks = 0, drifts = 0;
  std::vector<Nanos> ends;

  void step(Nanos takes) {
    ends.push_back((ends.empty() ? 0_ns : ends.back()) + takes);
    const auto mark = [&] { return ++marks, Tick{StreamId{0}, ends.size() - 1}; };
    const auto find_time = [&](Tick from, Tick to) -> std::optional<Nanos> {
      if (to.value + static_cast<std::uint64_t>(behind) >= ends.size()) return std::nullopt;
      return ends[to.value] - ends[from.value];
    };
    drifts += drift.note_step(10_ms, mark, find_time) ? 1 : 0;
  }
  void steps(int count, Nanos takes) {
    for (int i = 0; i < count; ++i) step(takes);
  }
};

TEST(Drift, StepsThatTakeWhatTheyTookAreNone) {
  Walk walk;
  walk.steps(1000, 10'900_us);
  EXPECT_EQ(walk.drifts, 0);
  EXPECT_LT(walk.marks, 2 * 1000 / kPause + 2);
}

TEST(Drift, StepsThatBecomeLongerOrShorterAreOne) {
  for (const Nanos now : {12_ms, 8_ms}) {
    Walk walk;
    walk.steps(kPause, 10_ms);
    walk.steps(kPause + 5, now);
    EXPECT_EQ(walk.drifts, 1);
  }
}

TEST(Drift, IsSeenOnceTheDeviceIsThere) {
  Walk walk;
  walk.behind = 3;
  walk.steps(kPause + 8, 12_ms);
  EXPECT_EQ(walk.drifts, 0);
  walk.steps(2, 12_ms);
  EXPECT_EQ(walk.drifts, 1);
}

TEST(Drift, OneLongStepIsNone) {
  Walk walk;
  for (int i = 0; i < 20; ++i) {
    walk.steps(kPause, 10_ms);
    walk.step(50_ms);  // the one that is looked at
    walk.step(10_ms);
    walk.step(10_ms);
    walk.drift.begin_anew();
  }
  EXPECT_EQ(walk.drifts, 0);
}

TEST(Drift, AStepThatWentAnotherWayBeginsALookAnew) {
  Walk walk;
  for (int i = 0; i < 20; ++i) {
    walk.steps(kPause / 2, 12_ms);
    walk.drift.begin_anew();
  }
  EXPECT_EQ(walk.marks, 0);
}

TEST(Drift, WhatCannotBeToldIsNone) {
  Drift drift;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(drift.note_step(10_ms, [] { return Tick{}; }, [](Tick, Tick) { return std::optional(0_ns); }));
}

TEST(Drift, WhoDriftsForEverIsLookedAtEverMoreSeldom) {
  Walk walk;
  walk.steps(64 * 64, 12_ms);
  EXPECT_GE(walk.drifts, 4);
  EXPECT_LE(walk.drifts, 7);
}

}  // namespace
}  // namespace spillway
