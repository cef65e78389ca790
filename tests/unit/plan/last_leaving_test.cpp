// Storages that live on after their last use: they leave for good, by a drop that nobody has to undo or by a way out alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "liveness/steps.h"
#include "plan/papers.h"
#include "plan/prices.h"
#include "plan/reasons.h"
#include "plan/timeline.h"
#include "support/gradient_step.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

constexpr Costs kCard{.out_nanos_per_byte = 0.02, .in_nanos_per_byte = 0.02, .out_price = 0.0001, .in_price = 0.0005, .per_copy = 1_us, .per_replay = 4_us};

// a is used for the last time before c makes the peak, and dies after it.
Trace kept_too_long(bool replayable) {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("a", 16_MiB);
    maker.op("make", {.in = {"x"}, .out = {"a"}, .takes = 1_ms, .replayable = replayable});
    maker.op("use", {.in = {"a"}, .takes = 1_ms});
    maker.op("wait", {.in = {"x"}, .takes = 20_ms});
    maker.birth("c", 80_MiB);
    maker.op("peak", {.in = {"x"}, .out = {"c"}, .takes = 1_ms});
    maker.death("c");
    maker.death("a");
    maker.op("end", {.in = {"x"}, .takes = 1_ms});
    maker.end();
  }
  return maker.trace();
}

// g, made and used at the step's end, dies after the next step's peak.
Trace gradient_that_stays() {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  for (int step = 0; step < 3; ++step) {
    maker.begin();
    maker.op("wait", {.in = {"x"}, .takes = 20_ms});
    maker.birth("c", 80_MiB);
    maker.op("peak", {.in = {"x"}, .out = {"c"}, .takes = 1_ms});
    maker.death("c");
    if (step > 0) maker.death("old");
    maker.birth("g", 16_MiB, StorageKind::gradient);
    maker.op("backward", {.in = {"x"}, .out = {"g"}, .takes = 1_ms, .phase = Phase::backward});
    maker.op("update", {.in = {"g"}, .write = {"x"}, .takes = 1_ms, .replayable = false, .phase = Phase::optimizer});
    maker.rename("g", "old");
    maker.end();
  }
  return maker.trace();
}

class LastLeaving {
 public:
  LastLeaving(Trace trace, Bytes budget) : trace_(std::move(trace)), step_(trace_, *find_steady_step(trace_)), request_{.step = step_, .costs = kCard, .budget = budget} {}

  const PlanRequest& request() const { return request_; }
  Nanos out_price(Bytes bytes) const { return Nanos{static_cast<std::int64_t>(static_cast<double>(bytes.count) * kCard.out_price)}; }

 private:
  Trace trace_;
  Liveness step_;
  PlanRequest request_;
};

TEST(LastLeaving, WhatCouldBeMadeAgainIsDroppedForNothing) {
  const LastLeaving one(kept_too_long(/*replayable=*/true), 90_MiB);
  for (const Plan& plan : {plan_hybrid(one.request()), plan_by_price(one.request())}) {
    ASSERT_EQ(plan.gaps.size(), 1u);
    EXPECT_EQ(plan.gaps[0].remedy, Remedy::drop);
    EXPECT_EQ(plan.gaps[0].gap.ends, GapEnd::death);
    EXPECT_EQ(plan.predicted.over, 0_B);
    EXPECT_EQ(plan.predicted.time, plan.predicted.plain_time);
    EXPECT_EQ(plan.predicted.rebuilt, 0_B);
  }
}

TEST(LastLeaving, WhatCouldNotGoesOutAndNotBack) {
  const LastLeaving one(kept_too_long(/*replayable=*/false), 90_MiB);
  const Plan plan = plan_hybrid(one.request());
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps[0].remedy, Remedy::move);
  EXPECT_EQ(plan.predicted.over, 0_B);
  EXPECT_EQ(plan.predicted.moved, 16_MiB);
  EXPECT_EQ(plan.predicted.effort, kCard.host_per_copy);  // of one copy
  EXPECT_EQ(plan.predicted.time, plan.predicted.plain_time + one.out_price(16_MiB));
}

TEST(LastLeaving, OverTheStepsEndItIsAwayAtTheNextOnesPeak) {
  const LastLeaving one(gradient_that_stays(), 90_MiB);
  const Plan plan = plan_hybrid(one.request());
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps[0].remedy, Remedy::move);
  EXPECT_EQ(plan.gaps[0].gap.ends, GapEnd::death);
  EXPECT_GT(plan.gaps[0].gap.end, one.request().step.op_count());
  EXPECT_EQ(plan.predicted.over, 0_B);
  EXPECT_EQ(plan.predicted.stall, 0_ns);
}

// 16 MiB take 0.34 ms to leave, and the peak comes before that.
TEST(LastLeaving, ItIsThereUntilItsWayOutHasEnded) {
  LastLeaving one(gradient_that_stays(), 90_MiB);
  PlanRequest slow = one.request();
  slow.costs.out_nanos_per_byte = 1.5;  // 25 ms
  const Plan plan = plan_hybrid(slow);
  EXPECT_EQ(plan.predicted.over, 0_B);
  EXPECT_GT(plan.predicted.stall, 1_ms);
}

TEST(LastLeaving, ThePapersDoNotKnowOfIt) {
  const LastLeaving one(kept_too_long(/*replayable=*/true), 90_MiB);
  EXPECT_TRUE(plan_tensile(one.request()).gaps.empty());
  EXPECT_EQ(plan_tensile(one.request()).predicted.over, 7_MiB);
}

// Whoever is kept beyond its death for another's sake does not leave before it.
TEST(LastLeaving, WhoIsHeldStays) {
  const Trace trace = testing::gradient_step();
  const Liveness step(trace, *find_steady_step(trace));
  for (int mib = 70; mib < 110; ++mib) {
    const Plan plan = plan_hybrid({.step = step, .costs = kCard, .budget = Bytes{mib} * (1 << 20), .smallest = 1_B});
    for (const Hold& hold : plan.holds) {
      const auto leaves = [&](const PlannedGap& planned) { return planned.gap.storage == hold.storage && planned.gap.ends == GapEnd::death; };
      EXPECT_TRUE(std::ranges::none_of(plan.gaps, leaves)) << mib;
    }
  }
}

TEST(LastLeaving, TheReasonSaysThatNobodyWantsIt) {
  const LastLeaving drop(kept_too_long(/*replayable=*/true), 90_MiB), move(kept_too_long(/*replayable=*/false), 90_MiB);
  EXPECT_EQ(explain(drop.request(), plan_hybrid(drop.request())).front(), "idle for 21.0 ms until it is gone, and not used again; if it were, it could be made again");
  EXPECT_EQ(explain(move.request(), plan_hybrid(move.request())).front(), "idle for 21.0 ms until it is gone, and not used again; out takes 337 us of the link and 1.68 us of kernels");
}

}  // namespace
}  // namespace spillway
