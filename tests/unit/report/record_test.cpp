#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/step_record.h"
#include "support/step_maker.h"
#include "support/trace_samples.h"
#include "trace/reader.h"
#include "trace/summary.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::StepMaker;

constexpr std::uint64_t kAll = 1'000'000;

void little_step(StepMaker& maker) {
  maker.begin();
  maker.make("a", 2_MiB, {"weight"});
  maker.make("b", 1_MiB, {"a"});
  maker.death("a");
  maker.death("b");
  maker.end();
}

TEST(Windows, AreTheStepsThatRunOps) {
  StepMaker maker;
  maker.birth("weight", 4_MiB);
  little_step(maker);
  maker.begin();
  maker.end();
  maker.begin();
  maker.op("forward", {.in = {"weight"}});

  const auto windows = find_windows(maker.trace());
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_TRUE(windows[0].whole);
  EXPECT_EQ(windows[0].ops, 2u);
  EXPECT_FALSE(windows[1].whole);  // the run ended before the step did
  EXPECT_EQ(windows[1].step, StepIndex{2});
  EXPECT_EQ(windows[1].end, maker.trace().events.size());
}

TEST(Windows, ATraceWithoutStepsIsOne) {
  Trace trace{.events = {Name{NameId{0}, "op"}}, .names = {"op"}};
  trace.events.emplace_back(Op{.index = OpIndex{0}, .name = NameId{0}, .job = JobId{0}});

  const auto windows = find_windows(trace);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_FALSE(windows[0].step.valid());
  EXPECT_EQ(windows[0].end, 2u);
}

TEST(Windows, TheLastAndTheFirstTwoAreDrawnFirst) {
  std::vector<StepWindow> windows(6, StepWindow{.cost = 10});

  EXPECT_THAT(choose_windows(windows, 60), ElementsAre(0u, 1u, 2u, 3u, 4u, 5u));
  EXPECT_THAT(choose_windows(windows, 45), ElementsAre(0u, 1u, 4u, 5u));
  EXPECT_THAT(choose_windows(windows, 10), ElementsAre(5u));
  EXPECT_THAT(choose_windows(windows, 1), ElementsAre(5u));  // never none
  EXPECT_THAT(choose_windows({}, 10), IsEmpty());
  EXPECT_THAT(choose_windows({StepWindow{.cost = 10}, StepWindow{.cost = 10}}, 100), ElementsAre(0u, 1u));
}

// op               0          1
// weight 4   ------------------------
// a      2   ------------------|
// b      1              -------|
TEST(StepRecord, PointsAddUpToDeviceBytes) {
  StepMaker maker;
  maker.birth("weight", 4_MiB, StorageKind::parameter);
  little_step(maker);
  const RunRecord run = record_run(maker.trace(), kAll);

  ASSERT_EQ(run.records.size(), 1u);
  const StepRecord& step = run.records[0];
  EXPECT_EQ(step.peak, 7_MiB);
  EXPECT_EQ(step.duration, 2_us);
  ASSERT_EQ(step.points.size(), 5u);
  EXPECT_EQ(step.points[0].what, kAlive | kOnDevice);
  EXPECT_EQ(step.points[3].what, kGone | kAlive | kOnDevice);
  EXPECT_EQ(step.storages[0].kind, StorageKind::parameter);
  EXPECT_EQ(step.ops.size(), 2u);
  EXPECT_EQ(maker.trace().name(step.storages[1].made_by), "make");
}

TEST(StepRecord, ATransientIsThereUntilItsOpEnds) {
  StepMaker maker;
  maker.begin();
  maker.birth("a", 2_MiB);
  maker.op("conv", {.out = {"a"}, .takes = 5_us, .workspace = 3_MiB});
  maker.op("relu", {.in = {"a"}});
  maker.end();
  const RunRecord run = record_run(maker.trace(), kAll);

  const StepRecord& step = run.records.at(0);
  EXPECT_THAT(step.transients, ElementsAre(3_MiB));
  EXPECT_EQ(step.peak, 5_MiB);
  ASSERT_EQ(step.points.size(), 3u);
  EXPECT_EQ(step.points[1].who, 1u);  // after the one storage
  EXPECT_EQ(step.points[1].at, 0_us);
  EXPECT_EQ(step.points[2].at, 5_us);
}

TEST(StepRecord, WhatLeavesIsAliveButNotOnTheDevice) {
  StepMaker maker;
  maker.birth("a", 2_MiB);
  maker.begin();
  maker.op("first", {});
  maker.add(Move{maker.id("a"), TraceTier::device, TraceTier::host, 2_MiB, OpIndex{0}, 3_us, 9_us, false});
  maker.op("second", {});
  maker.add(Move{maker.id("a"), TraceTier::host, TraceTier::device, 2_MiB, OpIndex{1}, 12_us, 9_us, false});
  maker.op("third", {.in = {"a"}});
  maker.end();
  const StepRecord step = record_run(maker.trace(), kAll).records.at(0);

  ASSERT_EQ(step.points.size(), 3u);
  EXPECT_EQ(step.points[1].what, kGone | kOnDevice);
  EXPECT_EQ(step.points[2].what, kOnDevice);
  ASSERT_EQ(step.copies.size(), 2u);
  EXPECT_EQ(step.copies[0].copy, Copy::out);
  EXPECT_EQ(step.copies[0].took, 9_us);
  EXPECT_EQ(maker.trace().name(step.copies[0].before), "first");
  EXPECT_EQ(step.storages[0].out, 1u);
  EXPECT_EQ(step.storages[0].in, 1u);
}

// An op's transient is gone when the next storage comes home: the two are never there together.
TEST(StepRecord, ATransientIsGoneBeforeWhatFollowsComes) {
  StepMaker maker;
  maker.birth("a", 4_MiB);
  maker.begin();
  maker.add(Move{maker.id("a"), TraceTier::device, TraceTier::host, 4_MiB, OpIndex{0}, 0_us, 0_us, false});
  maker.op("conv", {.takes = 5_us, .workspace = 4_MiB});
  maker.add(Move{maker.id("a"), TraceTier::host, TraceTier::device, 4_MiB, OpIndex{0}, 5_us, 1_us, false});
  maker.op("next", {.in = {"a"}});
  maker.end();

  EXPECT_EQ(record_run(maker.trace(), kAll).records.at(0).peak, 4_MiB);
}

TEST(StepRecord, TheSecondStepBeginsWithWhatTheFirstLeft) {
  StepMaker maker;
  maker.birth("weight", 4_MiB);
  little_step(maker);
  maker.add(Move{maker.id("weight"), TraceTier::device, TraceTier::host, 4_MiB, OpIndex{1}, 2_us, 0_us, false});
  maker.begin();
  maker.op("forward", {});
  maker.end();
  const RunRecord run = record_run(maker.trace(), kAll);

  ASSERT_EQ(run.records.size(), 2u);
  ASSERT_EQ(run.records[1].points.size(), 1u);
  EXPECT_EQ(run.records[1].points[0].what, kAlive);
  EXPECT_EQ(run.records[1].peak, 0_B);
}

TEST(StepRecord, DecisionsAreThoseOfThePlanInForceAndTheReactiveOnes) {
  StepMaker maker;
  maker.birth("a", 4_MiB);
  maker.add(PlanMade{.policy = {}, .job = JobId{0}, .budget = 8_MiB, .predicted_peak = 6_MiB});
  maker.add(Decision{.storage = maker.id("a"), .action = Action::drop, .job = JobId{0}});
  maker.begin();
  maker.op("forward", {.in = {"a"}});
  maker.add(Decision{.storage = maker.id("a"), .action = Action::move_out, .job = JobId{0}, .planned = false});
  maker.end();
  const StepRecord step = record_run(maker.trace(), kAll).records.at(0);

  ASSERT_EQ(step.storages[0].decisions.size(), 2u);
  EXPECT_EQ(step.storages[0].decisions[0].action, Action::drop);
  EXPECT_FALSE(step.storages[0].decisions[1].planned);
  EXPECT_EQ(step.plan.predicted_peak, 6_MiB);
}

TEST(StepRecord, ADecisionIsOverWithItsOps) {
  StepMaker maker;
  maker.birth("a", 4_MiB);
  maker.birth("b", 4_MiB);
  maker.add(PlanMade{.policy = {}, .job = JobId{0}, .budget = 8_MiB, .predicted_peak = 6_MiB});
  for (std::uint32_t step = 0; step < 2; ++step) {
    maker.begin();
    maker.op("forward", {.in = {"a", "b"}});
    const OpIndex next{step * 2 + 1};
    maker.add(Decision{.storage = maker.id("a"), .action = Action::drop, .at = next, .until = OpIndex{next.index + 1}, .job = JobId{0}});
    maker.add(Decision{.storage = maker.id("b"), .action = Action::move_out, .at = next, .until = OpIndex{next.index + 2}, .job = JobId{0}});
    maker.op("backward", {});
    maker.end();
  }
  const RunRecord run = record_run(maker.trace(), kAll);
  const auto decisions = [&](std::size_t step, std::size_t storage) { return run.records.at(step).storages.at(storage).decisions.size(); };

  EXPECT_EQ(decisions(0, 0), 1u);
  EXPECT_EQ(decisions(1, 0), 1u);
  EXPECT_EQ(decisions(1, 1), 2u);  // away when the step began, and once more
}

// Of a long run the steps in the middle are summaries; every step has its line all the same.
TEST(RunRecord, EveryStepHasALineAndTheWholeOnesARecord) {
  std::vector<std::uint8_t> bytes;
  {
    TraceWriter writer(std::make_unique<MemorySink>(bytes), WriterOptions{.first_steps = 2, .last_steps = 3});
    testing::Loop loop(writer);
    for (int i = 0; i < 20; ++i) loop.step();
  }
  const Trace trace = read_trace(bytes, "memory");
  const RunRecord run = record_run(trace, kAll);

  ASSERT_EQ(run.lines.size(), 20u);
  EXPECT_GE(run.records.size(), 5u);
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(run.lines[i].sums.step, StepIndex{i});
  EXPECT_GE(run.lines[0].record, 0);
  EXPECT_EQ(run.lines[10].record, -1);
  EXPECT_GE(run.lines[19].record, 0);
  for (const auto& line : run.lines) {
    if (line.record >= 0) {
      EXPECT_EQ(run.records[static_cast<std::size_t>(line.record)].peak, line.sums.peak);
    }
  }
}

}  // namespace
}  // namespace spillway
