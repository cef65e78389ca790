#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "liveness/curve.h"
#include "liveness/steps.h"
#include "plan/link.h"
#include "plan/prices.h"
#include "plan/timeline.h"
#include "support/chain_step.h"
#include "support/gradient_step.h"
#include "support/step_maker.h"
#include "trace/recorded_step.h"

namespace spillway {
namespace {

using testing::StepMaker;

constexpr Costs kCard{.out_nanos_per_byte = 1 / 55.0, .in_nanos_per_byte = 1 / 55.0, .out_price = 0.00016, .in_price = 0.00063,
                      .per_copy = 10_us, .per_replay = 4_us};

class RecordedStep : public ::testing::TestWithParam<const char*> {
 protected:
  Trace trace = import_recorded_step(std::string(SPILLWAY_SOURCE_DIR "/traces/") + GetParam() + ".json.gz");
  Liveness step{trace, *find_steady_step(trace)};
  LiveCurve curve = live_curve(step);

  [[nodiscard]] PlanRequest request(int percent) const {
    return {.step = step, .costs = kCard, .budget = curve.peak * percent / 100};
  }
};

TEST_P(RecordedStep, WithEverythingKeptTheTimelineIsThePlainStep) {
  const Problem problem(request(100));
  Timeline timeline(problem);
  const Outcome& outcome = timeline.run(std::vector<Choice>(problem.gap_count()));
  EXPECT_EQ(outcome.sum.peak, curve.peak);
  EXPECT_EQ(outcome.sum.peak_op, curve.peak_op);
  EXPECT_EQ(outcome.sum.time, outcome.sum.plain_time);
  EXPECT_EQ(outcome.during, curve.during);
}

TEST_P(RecordedStep, WhatFitsIsLeftAlone) { EXPECT_TRUE(plan_hybrid(request(100)).gaps.empty()); }

TEST_P(RecordedStep, APlanHoldsItsBudgetAndIsTheSameEveryTime) {
  for (const int percent : {80, 60}) {
    const Plan plan = plan_hybrid(request(percent));
    EXPECT_EQ(plan.predicted.over, 0_B) << percent;
    EXPECT_LE(plan.predicted.peak, request(percent).budget) << percent;
    EXPECT_EQ(plan.gaps, plan_hybrid(request(percent)).gaps) << percent;
    RecordProperty("slowdown_permille_at_" + std::to_string(percent),
                   static_cast<int>(1000 * (plan.predicted.time - plan.predicted.plain_time).count / plan.predicted.plain_time.count));
  }
}

TEST_P(RecordedStep, WhereStepsWaitForTheHostItsEffortIsWhatPlansSpare) {
  PlanRequest late = request(60);
  late.costs.host_step = step.starts()[step.op_count()] * 3 / 2;
  const Plan ahead = improve(request(60), plan_hybrid(request(60)), 400);
  const Plan spared = improve(late, ahead, 1000);
  EXPECT_EQ(predict(late, ahead).time, late.costs.host_step + ahead.predicted.effort);
  EXPECT_EQ(spared.predicted.time, late.costs.host_step + spared.predicted.effort);
  EXPECT_LT(spared.predicted.effort, ahead.predicted.effort);
  EXPECT_EQ(spared.predicted.over, 0_B);
}

TEST_P(RecordedStep, LessMemoryNeverCostsLess) {
  Nanos before;
  for (const int percent : {100, 80, 60}) {
    const Nanos time = plan_hybrid(request(percent)).predicted.time;
    EXPECT_GE(time, before) << percent;
    before = time;
  }
}

TEST_P(RecordedStep, ImprovingNeverMakesAPlanWorse) {
  const Plan plan = plan_hybrid(request(60));
  EXPECT_FALSE(is_better(plan.predicted, improve(request(60), plan, 200).predicted));
}

INSTANTIATE_TEST_SUITE_P(Traces, RecordedStep,
                         ::testing::Values("resnet50_b256", "gpt2m_16x1024", "vgg16_b128", "vit_b_16_b256", "densenet121_b128"));

// a, made in `takes`, lies idle while c makes the peak, and is read again at the end.
Trace three_ops(Nanos takes, bool replayable) {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("a", 16_MiB);
    maker.op("first", {.in = {"x"}, .out = {"a"}, .takes = takes, .replayable = replayable});
    maker.birth("b", 2_MiB);
    maker.op("second", {.in = {"a"}, .out = {"b"}, .takes = 20_ms});
    maker.op("idle", {.in = {"b"}, .takes = 20_ms});
    maker.birth("c", 80_MiB);
    maker.op("third", {.in = {"b"}, .out = {"c"}, .takes = 20_ms});
    maker.death("c");
    maker.op("between", {.in = {"b"}, .takes = 20_ms});
    maker.op("last", {.in = {"a", "b"}, .takes = 1_ms});
    maker.death("a");
    maker.death("b");
    maker.end();
  }
  return maker.trace();
}

Plan plan_for(const Trace& trace, Bytes budget) {
  const Liveness step(trace, *find_steady_step(trace));
  return plan_hybrid({.step = step, .costs = kCard, .budget = budget});
}

TEST(Hybrid, WhatIsCheapToMakeIsDropped) {
  const Plan plan = plan_for(three_ops(5_us, /*replayable=*/true), 90_MiB);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps[0].remedy, Remedy::drop);
  EXPECT_EQ(plan.predicted.rebuild, 9_us);
}

TEST(Hybrid, WhatIsDearToMakeAndIdleLongIsMovedBehindTheCompute) {
  const Plan plan = plan_for(three_ops(30_ms, /*replayable=*/true), 90_MiB);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps[0].remedy, Remedy::move);
  EXPECT_EQ(plan.predicted.stall, 0_ns);
  EXPECT_EQ(plan.predicted.moved, 16_MiB);
}

TEST(ByPrice, FitsAndIsNoBetterThanWhatIsSearchedForAfter) {
  const Trace trace = three_ops(10_us, /*replayable=*/true);
  const Liveness step(trace, *find_steady_step(trace));
  const PlanRequest request{.step = step, .costs = kCard, .budget = 90_MiB};
  const Plan quick = plan_by_price(request);
  EXPECT_EQ(quick.predicted.over, 0_B);
  EXPECT_FALSE(quick.gaps.empty());
  EXPECT_FALSE(is_better(quick.predicted, plan_hybrid(request).predicted));
  EXPECT_EQ(predict(request, quick).time, quick.predicted.time);
}

TEST(Hybrid, WhatMayNotBeRunAgainIsMoved) {
  const Plan plan = plan_for(three_ops(10_us, /*replayable=*/false), 90_MiB);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps[0].remedy, Remedy::move);
}

TEST(Hybrid, ABudgetThatCannotBeHeldIsToldByHowMuch) {
  const Plan plan = plan_for(three_ops(10_us, /*replayable=*/true), 32_MiB);
  EXPECT_EQ(plan.predicted.over, 50_MiB);  // b and c against 32 MiB
}

// As three_ops, but the first op, dear, makes `statistics` beside a; `dies`: before a is wanted again.
Trace with_a_side(bool dies) {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("a", 16_MiB);
    maker.birth("statistics", 1_KiB);
    maker.op("norm", {.in = {"x"}, .out = {"a", "statistics"}, .takes = 30_ms});
    maker.birth("b", 2_MiB);
    maker.op("second", {.in = {"a"}, .out = {"b"}, .takes = 20_ms});
    if (dies) maker.death("statistics");
    maker.op("idle", {.in = {"b"}, .takes = 20_ms});
    maker.birth("c", 80_MiB);
    maker.op("third", {.in = {"b"}, .out = {"c"}, .takes = 20_ms});
    maker.death("c");
    maker.op("between", {.in = {"b"}, .takes = 20_ms});
    maker.op("last", {.in = {"a", "b"}, .takes = 1_ms});
    if (!dies) maker.death("statistics");
    maker.death("a");
    maker.death("b");
    maker.end();
  }
  return maker.trace();
}

Plan lean_plan_for(const Trace& trace) {
  const std::vector<Nanos> lean{5_us, 0_ns, 0_ns, 0_ns, 0_ns, 0_ns};
  const Liveness step(trace, *find_steady_step(trace));
  return plan_hybrid({.step = step, .costs = kCard, .budget = 90_MiB, .lean = lean});
}

TEST(Hybrid, WhatIsDearToMakeAndLeanToRebuildIsDropped) {
  const Plan plan = lean_plan_for(with_a_side(/*dies=*/false));
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps[0].remedy, Remedy::drop);
  EXPECT_EQ(plan.predicted.rebuild, 9_us);
}

TEST(Hybrid, WithoutItsSideALeanRebuildIsARunOfTheOp) {
  const Plan plan = lean_plan_for(with_a_side(/*dies=*/true));
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps[0].remedy, Remedy::move);
}

// What is made while nobody wants h, which is then read.
void want_h_again(StepMaker& maker) {
  maker.birth("b", 2_MiB);
  maker.op("second", {.in = {"h"}, .out = {"b"}, .takes = 20_ms});
  maker.birth("c", 80_MiB);
  maker.op("third", {.in = {"b"}, .out = {"c"}, .takes = 20_ms});
  maker.death("c");
  maker.op("between", {.in = {"b"}, .takes = 20_ms});
  maker.op("last", {.in = {"h", "b"}, .takes = 1_ms});
}

// A norm of x makes a and its statistics, a cast makes h of a, and a is dead long before h is wanted again; `dies`: the
// statistics, too.
Trace with_a_cast(bool dies) {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("a", 5_MiB);
    maker.birth("statistics", 1_KiB);
    maker.op("norm", {.in = {"x"}, .out = {"a", "statistics"}, .takes = 30_ms});
    maker.birth("h", 16_MiB);
    maker.op("cast", {.in = {"a"}, .out = {"h"}, .takes = 20_us});
    maker.death("a");
    if (dies) maker.death("statistics");
    want_h_again(maker);
    if (!dies) maker.death("statistics");
    maker.death("h");
    maker.death("b");
    maker.end();
  }
  return maker.trace();
}

// Of this size there is only h.
Prediction with_h_dropped(const Trace& trace, Bytes h, const std::vector<Nanos>& lean, Bytes budget) {
  const Liveness step(trace, *find_steady_step(trace));
  const PlanRequest request{.step = step, .costs = kCard, .budget = budget, .lean = lean};
  const Problem problem(request);
  for (GapPlace gap = 0; gap < problem.gap_count(); ++gap) {
    if (problem.size(gap) == h && problem.may_drop(gap)) return predict(request, {.gaps = {{problem.gaps()[gap], Remedy::drop, problem.gaps()[gap].end}}, .holds = {}, .predicted = {}});
  }
  return {};
}

TEST(Timeline, ACastOfADeadNormIsMadeInOnePassFromWhatTheNormWasMadeOf) {
  const Prediction found = with_h_dropped(with_a_cast(/*dies=*/false), 16_MiB, {5_us, 7_us, 0_ns, 0_ns, 0_ns, 0_ns}, 90_MiB);
  EXPECT_EQ(found.rebuilt, 16_MiB);
  EXPECT_EQ(found.rebuild, 7_us + kCard.per_replay);
  EXPECT_EQ(found.peak, 83_MiB + 1_KiB);  // x, b, c and the statistics: what is dead does not come back
}

TEST(Timeline, WithoutTheStatisticsTheNormRunsAgainAndThenTheCast) {
  const Prediction found = with_h_dropped(with_a_cast(/*dies=*/true), 16_MiB, {5_us, 7_us, 0_ns, 0_ns, 0_ns, 0_ns}, 90_MiB);
  EXPECT_EQ(found.rebuilt, 21_MiB);
  EXPECT_EQ(found.rebuild, 30_ms + 20_us + kCard.per_replay + kCard.per_replay);
}

// A dropout of x makes a and its mask, and h is the sum of a, which is dead long before h is wanted again, and of z; `z_dies`: z, too.
Trace with_a_sum(bool z_dies) {
  StepMaker maker;
  maker.birth("x", 16_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("z", 16_MiB);
    maker.op("residual", {.in = {"x"}, .out = {"z"}, .takes = 40_us});
    maker.birth("a", 16_MiB);
    maker.birth("mask", 4_MiB);
    maker.op("dropout", {.in = {"x"}, .out = {"a", "mask"}, .takes = 30_us});
    maker.birth("h", 16_MiB + 1_KiB);
    maker.op("add", {.in = {"z", "a"}, .out = {"h"}, .takes = 20_us});
    maker.death("a");
    if (z_dies) maker.death("z");
    want_h_again(maker);
    for (const char* name : {"mask", "h", "b"}) maker.death(name);
    if (!z_dies) maker.death("z");
    maker.end();
  }
  return maker.trace();
}

Prediction with_the_sum_dropped(const Trace& trace) {
  return with_h_dropped(trace, 16_MiB + 1_KiB, {0_ns, 5_us, 7_us, 0_ns, 0_ns, 0_ns, 0_ns}, 180_MiB);
}

TEST(Timeline, ASumWithADeadDropoutIsMadeInOnePass) {
  const Prediction found = with_the_sum_dropped(with_a_sum(/*z_dies=*/false));
  EXPECT_EQ(found.rebuilt, 16_MiB + 1_KiB);
  EXPECT_EQ(found.rebuild, 7_us + kCard.per_replay);
}

TEST(Timeline, WhatIsAddedIsMadeAgainFirstWhereItIsDeadToo) {
  const Prediction found = with_the_sum_dropped(with_a_sum(/*z_dies=*/true));
  EXPECT_EQ(found.rebuilt, 32_MiB + 1_KiB);
  EXPECT_EQ(found.rebuild, 40_us + 7_us + kCard.per_replay + kCard.per_replay);
}

// a and b are dropped; `again`: a leaves again when b has been made from it.
Prediction with_both_dropped(bool again) {
  const Trace trace = testing::chain_step();
  const Liveness step(trace, *find_steady_step(trace));
  const PlanRequest request{.step = step, .costs = kCard, .budget = 85_MiB};
  const Problem problem(request);
  Plan plan;
  for (const Gap& gap : problem.gaps()) {
    if (problem.size(problem.find(gap)) == 32_MiB) plan.gaps.push_back({gap, Remedy::drop, gap.end, again});
  }
  return predict(request, plan);
}

TEST(Timeline, WhoIsRebuiltForAnotherStays) {
  const Prediction found = with_both_dropped(/*again=*/false);
  EXPECT_EQ(found.peak, 115_MiB);  // x, a, b and d
  EXPECT_EQ(found.rebuild, 11_us + kCard.per_replay + kCard.per_replay);
}

TEST(Timeline, OrLeavesAgainAndIsRebuiltOnceMore) {
  const Prediction found = with_both_dropped(/*again=*/true);
  EXPECT_EQ(found.peak, 83_MiB);  // x, b and d
  EXPECT_EQ(found.rebuilt, 96_MiB);
  EXPECT_EQ(found.rebuild, 16_us + kCard.per_replay + kCard.per_replay + kCard.per_replay);
}

TEST(Hybrid, WhoIsRebuiltForAnotherLeavesAgainWhereItWouldBeInTheWay) {
  const Plan plan = plan_for(testing::chain_step(), 85_MiB);
  EXPECT_EQ(plan.predicted.over, 0_B);
  EXPECT_EQ(plan.predicted.moved, 0_B);
  EXPECT_EQ(std::ranges::count(plan.gaps, true, &PlannedGap::again), 1);
}

TEST(Hybrid, SmallStoragesAreKeptBeyondTheirDeathWhereALargeOneIsMadeOfThem) {
  const Plan plan = plan_for(testing::gradient_step(), 88_MiB);
  EXPECT_EQ(plan.predicted.over, 0_B);
  EXPECT_EQ(plan.predicted.moved, 0_B);
  EXPECT_EQ(plan.predicted.rebuilt, 69_MiB);  // g and, on the way, h
  EXPECT_EQ(plan.predicted.peak, 83_MiB);     // input, x, d and c
  ASSERT_EQ(plan.holds.size(), 2u);
  for (const Hold& hold : plan.holds) EXPECT_EQ(hold.until, 6u);  // the op after the one that wants g
}

TEST(Link, TakesWhatFitsIntoEveryWindow) {
  Link link(100_ms, 10);
  EXPECT_TRUE(link.try_take(0_ms, 50_ms, 30_ms));
  EXPECT_TRUE(link.try_take(0_ms, 50_ms, 20_ms));
  EXPECT_FALSE(link.try_take(0_ms, 50_ms, 1_ms));
  EXPECT_TRUE(link.try_take(0_ms, 100_ms, 50_ms));
  EXPECT_FALSE(link.try_take(50_ms, 100_ms, 1_ms));
}

TEST(Link, RefusesACopyLongerThanItsOwnWindow) {
  Link link(100_ms, 10);
  EXPECT_FALSE(link.try_take(20_ms, 30_ms, 11_ms));
}

}  // namespace
}  // namespace spillway
