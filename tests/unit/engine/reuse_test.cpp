#include "engine/reuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "liveness/gaps.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

// op      0     1     2     3      4      5
// a       made  .     .     .      .      read
// b             made  .     .      read
// c                   made  read
Trace stack_of_three(Bytes size) {
  StepMaker maker;
  maker.begin();
  maker.birth("in", size);
  maker.make("a", size, {"in"});
  maker.make("b", size, {"a"});
  maker.make("c", size, {"b"});
  for (const char* name : {"c", "b", "a"}) {
    maker.op("back", {.in = {name}});
    maker.death(name);
  }
  maker.death("in");
  maker.end();
  return maker.trace();
}

Liveness step_of(const Trace& trace) { return Liveness(trace, find_whole_steps(trace)[0]); }

std::vector<Gap> gaps_of(const Liveness& step) {
  std::vector<Gap> gaps;
  for (const Gap& gap : find_gaps(step)) {
    if (gap.ends == GapEnd::access) gaps.push_back(gap);
  }
  std::ranges::stable_sort(gaps, {}, &Gap::begin);
  return gaps;
}

TEST(Reuse, WhoIsAwayIsNotCounted) {
  const Liveness step = step_of(stack_of_three(1_MiB));
  const std::vector<Gap> gaps = gaps_of(step);  // of a and b; c has none
  ASSERT_EQ(gaps.size(), 2u);

  EXPECT_EQ(peak_beside(step, {}), 4_MiB);
  EXPECT_EQ(peak_beside(step, std::span(gaps).first(1)), 3_MiB);
  EXPECT_EQ(peak_beside(step, gaps), 3_MiB);  // where c is made, b is read
}

TEST(Reuse, AtASmallerSizeGapsAreSparedAsLongAsItFits) {
  const std::vector<Gap> gaps = gaps_of(step_of(stack_of_three(1_MiB)));
  const Liveness smaller = step_of(stack_of_three(800_KiB));

  const Reuse tight = reuse_gaps(smaller, gaps, 2500_KiB), loose = reuse_gaps(smaller, gaps, 4_MiB);

  EXPECT_EQ(tight.spared, (std::vector<bool>{false, true}));  // the later one relieves no peak
  EXPECT_EQ(tight.peak, 2400_KiB);
  EXPECT_EQ(loose.spared, (std::vector<bool>{true, true}));
  EXPECT_EQ(loose.peak, 3200_KiB);
}

// a and b are idle where c is made: one of them has to be away, and either will do.
TEST(Reuse, GapsAreSparedInTheOrderAskedFor) {
  StepMaker maker;
  maker.begin();
  maker.birth("in", 1_MiB);
  for (const char* name : {"a", "b", "c"}) maker.make(name, 1_MiB, {"in"});
  for (const char* name : {"c", "b", "a"}) {
    maker.op("back", {.in = {name}});
    maker.death(name);
  }
  maker.death("in");
  maker.end();
  const Trace trace = maker.trace();
  const Liveness step = step_of(trace);
  const std::vector<Gap> gaps = gaps_of(step);  // of a and b; c has none
  ASSERT_EQ(gaps.size(), 2u);

  EXPECT_EQ(reuse_gaps(step, gaps, 3_MiB, std::vector<std::uint32_t>{0, 1}).spared, (std::vector<bool>{true, false}));
  EXPECT_EQ(reuse_gaps(step, gaps, 3_MiB, std::vector<std::uint32_t>{1, 0}).spared, (std::vector<bool>{false, true}));
}

TEST(Reuse, WhatIsNotEnoughSparesNothing) {
  const Liveness step = step_of(stack_of_three(1_MiB));

  const Reuse reuse = reuse_gaps(step, gaps_of(step), 1_MiB);

  EXPECT_EQ(reuse.peak, 3_MiB);
  EXPECT_TRUE(reuse.spared.empty());
}

// a and b are the plan's, of which a relieves the peak; c and d are idle there, too, and e is not.
class ReuseReserve : public ::testing::Test {
 protected:
  ReuseReserve() {
    StepMaker maker;
    maker.begin();
    maker.birth("in", 1_MiB);
    for (const char* name : {"a", "b", "c", "d"}) maker.make(name, 1_MiB, {"in"});
    maker.make("peak", 4_MiB, {"in"});
    maker.death("peak");
    maker.make("e", 1_MiB, {"in"});
    maker.op("rest", {.in = {"in"}});
    for (const char* name : {"e", "d", "c", "b", "a"}) {
      maker.op("back", {.in = {name}});
      maker.death(name);
    }
    maker.death("in");
    maker.end();
    trace = maker.trace();
    step.emplace(step_of(trace));
    gaps = gaps_of(*step);
    std::swap(gaps[1], gaps[4]);  // in this order: a, e; d, c, b
    std::swap(gaps[2], gaps[3]);
  }

  std::vector<bool> spared(Bytes limit) const { return reuse_gaps(*step, gaps, limit, {}, /*reserve=*/3).spared; }

  Trace trace;
  std::optional<Liveness> step;
  std::vector<Gap> gaps;
};

TEST_F(ReuseReserve, NobodyOfItLeavesWhereThePlanIsEnough) {
  EXPECT_EQ(spared(8_MiB), (std::vector<bool>{false, true, true, true, true}));
  EXPECT_EQ(spared(9_MiB), (std::vector<bool>{true, true, true, true, true}));
}

TEST_F(ReuseReserve, AsManyOfItLeaveInTheirOrderAsItTakes) {
  EXPECT_EQ(spared(7_MiB), (std::vector<bool>{false, false, false, true, true}));
  EXPECT_EQ(spared(6_MiB), (std::vector<bool>{false, false, false, false, true}));
  EXPECT_EQ(spared(5_MiB), (std::vector<bool>{false, false, false, false, false}));
}

TEST_F(ReuseReserve, WhatIsLeftIsToldWhereAllOfItIsNotEnough) {
  EXPECT_EQ(reuse_gaps(*step, gaps, 3_MiB, {}, /*reserve=*/3).peak, 5_MiB);
}

// A gap that is not there where memory lacks would leave in vain.
TEST_F(ReuseReserve, WhoWouldLeaveInVainStays) {
  std::swap(gaps[1], gaps[2]);  // a, d; e, c, b
  EXPECT_EQ(spared(6_MiB), (std::vector<bool>{false, false, true, false, true}));
}

TEST(Reuse, AGapOverTheStepsEndCountsOnBothSidesOfIt) {
  const Liveness step = step_of(stack_of_three(1_MiB));
  const Gap over{.storage = 0, .begin = step.op_count() - 1, .end = step.op_count() + 2};

  EXPECT_EQ(peak_beside(step, std::vector<Gap>{over}), 4_MiB);
  EXPECT_EQ(reuse_gaps(step, std::vector<Gap>{over}, 4_MiB).spared, std::vector<bool>{true});
}

}  // namespace
}  // namespace spillway
