#include "plan/reserve.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "liveness/curve.h"
#include "plan/policies.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

constexpr int kLayers = 12;

// Each layer keeps an activation of 8 MiB for the backward pass; making one takes so long, a copy 1 ms.
Trace layers(Nanos takes, bool replayable = true) {
  StepMaker maker;
  maker.birth("weights", 4_MiB, StorageKind::parameter);
  maker.birth("moments", 4_MiB, StorageKind::optimizer_state);
  const auto name = [](int layer) { return layer < 0 ? std::string("in") : "a" + std::to_string(layer); };
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("in", 1_MiB, StorageKind::input);
    for (int layer = 0; layer < kLayers; ++layer) {
      maker.birth(name(layer), 8_MiB);
      maker.op("make", {.in = {name(layer - 1), "weights"}, .out = {name(layer)}, .takes = takes, .replayable = replayable});
    }
    for (int layer = kLayers; layer-- > 0;) {
      maker.op("back", {.in = {name(layer), "weights"}, .takes = takes, .phase = Phase::backward});
      maker.death(name(layer));
    }
    maker.op("update", {.write = {"weights", "moments"}, .takes = takes, .replayable = false, .phase = Phase::optimizer});
    maker.death("in");
    maker.end();
  }
  return maker.trace();
}

class ReserveTest : public ::testing::Test {
 protected:
  void look_at(const Trace& made, int percent) {
    trace = made;
    step.emplace(trace, *find_steady_step(trace));
    budget = live_curve(*step).peak * percent / 100;
    plan = plan_hybrid(request());
    reserve = plan_reserve(request(), plan);
  }

  [[nodiscard]] PlanRequest request() const {
    return {.step = *step, .costs = {.out_nanos_per_byte = 0.125, .in_nanos_per_byte = 0.125, .out_price = 0.001, .in_price = 0.001}, .budget = budget};
  }

  Trace trace;
  std::optional<Liveness> step;
  Bytes budget;
  Plan plan;
  std::vector<PlannedGap> reserve;
};

TEST_F(ReserveTest, IsOfGapsThePlanKeeps) {
  look_at(layers(2_ms), 80);
  ASSERT_FALSE(plan.gaps.empty());
  ASSERT_FALSE(reserve.empty());
  for (const PlannedGap& one : reserve) {
    EXPECT_TRUE(std::ranges::none_of(plan.gaps, [&](const PlannedGap& planned) { return planned.gap == one.gap; }));
    EXPECT_EQ(std::ranges::count(reserve, one), 1);
    EXPECT_NE(one.remedy, Remedy::keep);
    EXPECT_LE(one.gap.end, step->op_count());  // who leaves over the step's end is there in this one
    EXPECT_GE(one.fetch_at, one.gap.begin);
    EXPECT_LE(one.fetch_at, one.gap.end);
  }
}

// With both, the step fits in two thirds of its budget.
TEST_F(ReserveTest, IsEnoughForAStepThatIsLargerByHalf) {
  look_at(layers(2_ms), 80);
  Plan both = plan;
  both.gaps.insert(both.gaps.end(), reserve.begin(), reserve.end());
  PlanRequest larger = request();
  larger.budget = budget * 2 / 3;
  EXPECT_GT(predict(larger, plan).over, 0_B);
  EXPECT_EQ(predict(larger, both).over, 0_B);
}

// The link has time for half of them at most: the others are made again, which is what it takes.
TEST_F(ReserveTest, WhatTheLinkHasNoTimeForIsDropped) {
  look_at(layers(100_us), 80);
  const auto moves = std::ranges::count(reserve, Remedy::move, &PlannedGap::remedy), drops = std::ranges::count(reserve, Remedy::drop, &PlannedGap::remedy);
  EXPECT_GT(drops, moves);
}

TEST_F(ReserveTest, WhoCannotBeMadeAgainIsMovedOrStays) {
  look_at(layers(2_ms, /*replayable=*/false), 80);
  EXPECT_FALSE(reserve.empty());
  EXPECT_EQ(std::ranges::count(reserve, Remedy::drop, &PlannedGap::remedy), 0);
}

}  // namespace
}  // namespace spillway
