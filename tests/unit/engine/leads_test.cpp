#include "engine/leads.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "liveness/gaps.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

// Ten ops of 1 ms.
const std::vector<Nanos> kStarts{0_ms, 1_ms, 2_ms, 3_ms, 4_ms, 5_ms, 6_ms, 7_ms, 8_ms, 9_ms, 10_ms};

using Ops = std::vector<OpPlace>;

TEST(PlanStarts, NobodyMovesWhereNobodyIsLate) {
  const std::vector<Coming> coming{{.gap = 0, .start = 3, .copy = 2_ms}, {.gap = 1, .start = 3, .copy = 2_ms}};
  EXPECT_EQ(plan_starts(coming, kStarts), (Ops{3, 3}));
}

// op      0   1   2   3   4   5   6   7
// before                      <--copy-->   2 ms late: it begins 2.25 ms before op 5
TEST(PlanStarts, OneBeginsEarlierByWhatItWasLateAndALittle) {
  const std::vector<Coming> coming{{.gap = 0, .start = 5, .copy = 2_ms, .late = 2_ms}};
  EXPECT_EQ(plan_starts(coming, kStarts), Ops{2});
}

TEST(PlanStarts, NotBeforeItsPlaceIsFree) {
  std::vector<Coming> coming{{.gap = 0, .start = 5, .not_before = 4, .copy = 2_ms, .late = 2_ms}};
  EXPECT_EQ(plan_starts(coming, kStarts), Ops{4});
  coming[0].not_before = 0;
  coming[0].late = 1_s;
  EXPECT_EQ(plan_starts(coming, kStarts), Ops{0});
  coming[0].not_before = 7;  // it begins too early as it is
  EXPECT_EQ(plan_starts(coming, kStarts), Ops{5});
}

// op        0   1   2   3   4   5   6   7   8
// before                    <a-----><b----->      b is late; a has the link until b begins
// after         <a-----><b----->
TEST(PlanStarts, WhoIsBeforeItOnTheLinkMakesWay) {
  const std::vector<Coming> coming{{.gap = 7, .start = 4, .copy = 2_ms}, {.gap = 3, .start = 6, .copy = 2_ms, .late = 2_ms}};
  EXPECT_EQ(plan_starts(coming, kStarts), (Ops{1, 3}));
}

// op        0   1   2   3   4   5   6   7   8   9
// before    <a->                    <b->           a is home long before
TEST(PlanStarts, WhoIsNotInTheWayStaysWhereItIs) {
  const std::vector<Coming> coming{{.gap = 0, .start = 0, .copy = 1_ms}, {.gap = 1, .start = 6, .copy = 1_ms, .late = 1_ms}};
  EXPECT_EQ(plan_starts(coming, kStarts), (Ops{0, 4}));
}

// op        0   1   2   3   4   5   6   7   8   9
// before                        <a------------><b->   b cannot begin before op 6, and then a has the link
// after             <a------------><b->
TEST(PlanStarts, TheLinkIsFreeWhenOneThatCannotMoveBegins) {
  const std::vector<Coming> coming{{.gap = 0, .start = 5, .copy = 4_ms}, {.gap = 1, .start = 6, .not_before = 6, .copy = 1_ms, .late = 3_ms}};
  EXPECT_EQ(plan_starts(coming, kStarts), (Ops{2, 6}));
}

// Ten ops of 1 ms; w is read by the first and by op 8, is away in between, and begins its way back before op 6.
Script script_of_one_gap() {
  testing::StepMaker maker;
  maker.birth("w", 1_MiB, StorageKind::parameter);
  RecordedSteps steps;
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    for (std::uint64_t op = 0; op < 10; ++op) maker.op("op", {.in = op % 8 == 0 ? std::vector<std::string>{"w"} : std::vector<std::string>{}, .takes = 1_ms});
    maker.end();
  }
  steps.trace = maker.trace();
  for (std::uint64_t op = 0; op < 10; ++op) steps.keys.push_back(op), steps.shapes.push_back(op);
  const Liveness step(steps.trace, *find_step(steps.trace, StepRecorder::kStep));
  Plan plan;
  for (const Gap& gap : find_gaps(step)) {
    if (gap.begin == 1) plan.gaps.push_back({.gap = gap, .remedy = Remedy::move, .fetch_at = 6});
  }
  return {steps, step, plan, 1_GiB};
}

class LeadsTest : public ::testing::Test {
 protected:
  // A step in which w was waited for so long.
  void step(Nanos late) {
    leads.look_at(++steps);
    leads.note(0, steps, late);
    leads.judge(script, {});
  }
  // The op before which w begins ahead of its time in the step that follows; 6: it does not.
  std::size_t start() {
    leads.begin_step();
    for (std::size_t op = 0; op < 6; ++op) {
      std::vector<std::uint32_t> due;
      leads.take_due(op, due);
      if (!due.empty()) return op;
    }
    return 6;
  }

  Script script = script_of_one_gap();
  Leads leads;
  std::uint64_t steps = 0;
};

TEST_F(LeadsTest, WhoWasWaitedForBeginsEarlierFromTheNextStepOn) {
  ASSERT_EQ(script.gap_count(), 1u);
  EXPECT_EQ(start(), 6u);
  step(2_ms);
  EXPECT_EQ(start(), 3u);
  step(0_ms);
  EXPECT_EQ(start(), 3u);
}

TEST_F(LeadsTest, NotBeforeItHasLeft) {
  step(9_ms);
  EXPECT_EQ(start(), 1u);
}

TEST_F(LeadsTest, StillLateItBeginsEarlierStill) {
  step(2_ms);
  step(1_ms);
  EXPECT_EQ(start(), 1u);
}

TEST_F(LeadsTest, WhatDoesNotHelpIsTakenBackAndNotTriedAgain) {
  step(2_ms);
  step(2_ms);
  EXPECT_EQ(start(), 6u);
  step(2_ms);
  EXPECT_EQ(start(), 6u);
}

TEST_F(LeadsTest, MuchLaterThanWhatCouldNotBeHelpedIsTriedFor) {
  step(2_ms);
  step(2_ms);
  step(4_ms);
  EXPECT_EQ(start(), 1u);
}

TEST_F(LeadsTest, NobodyIsMovedForLittle) {
  step(15_us);
  EXPECT_EQ(start(), 6u);
}

TEST_F(LeadsTest, WhatWasWaitedInOtherStepsDoesNotCount) {
  leads.look_at(5);
  leads.note(0, 4, 2_ms);
  leads.note(0, 6, 2_ms);
  leads.judge(script, {});
  EXPECT_EQ(start(), 6u);
}

TEST_F(LeadsTest, AStepThatWentAnotherWayPutsAllBack) {
  step(2_ms);
  leads.give_up();
  EXPECT_EQ(start(), 6u);
}

}  // namespace
}  // namespace spillway
