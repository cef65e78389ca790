// The papers' planners: on recorded steps what each promises, and by hand what each says it does.
#include "plan/papers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "liveness/curve.h"
#include "liveness/steps.h"
#include "plan/policies.h"
#include "plan/timeline.h"
#include "support/step_maker.h"
#include "trace/recorded_step.h"

namespace spillway {
namespace {

using testing::StepMaker;

constexpr Costs kCard{.out_nanos_per_byte = 1 / 55.0, .in_nanos_per_byte = 1 / 55.0, .out_price = 0.00016, .in_price = 0.00063,
                      .per_copy = 10_us, .per_replay = 4_us};

// --- recorded steps -------------------------------------------------------------------------------------------------

class Papers : public ::testing::TestWithParam<const char*> {
 protected:
  Trace trace = import_recorded_step(SPILLWAY_SOURCE_DIR "/traces/resnet50_b256.json.gz");
  Liveness step{trace, *find_steady_step(trace)};
  Bytes peak = live_curve(step).peak;

  [[nodiscard]] Plan plan(int percent) const {
    return find_plan_policy(GetParam())->plan({.step = step, .costs = kCard, .budget = peak * percent / 100}, {});
  }
};

TEST_P(Papers, WhatFitsIsLeftAlone) { EXPECT_TRUE(plan(100).gaps.empty()); }

TEST_P(Papers, LowersThePeakAndSaysWhatThatCosts) {
  const Plan found = plan(70);
  EXPECT_FALSE(found.gaps.empty());
  EXPECT_LT(found.predicted.peak, peak);
  EXPECT_GT(found.predicted.time, found.predicted.plain_time);
  EXPECT_EQ(found.predicted.over, std::max(found.predicted.peak - peak * 70 / 100, 0_B));
  EXPECT_EQ(found.gaps, plan(70).gaps);
}

TEST_P(Papers, HybridIsNoSlowerWhereBothFit) {
  for (const int percent : {80, 60}) {
    const Plan theirs = plan(percent);
    const PlanRequest request{.step = step, .costs = kCard, .budget = peak * percent / 100};
    if (theirs.predicted.over > 0_B) continue;
    Nanos ours = plan_hybrid(request).predicted.time;
    for (int way = 0; way < kOtherWays; ++way) {
      const Prediction found = improve(request, plan_another_way(request, way), 500, static_cast<std::uint32_t>(way)).predicted;
      if (found.over == 0_B) ours = std::min(ours, found.time);
    }
    EXPECT_LE(ours, theirs.predicted.time) << percent;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, Papers, ::testing::Values("superneurons", "tensile", "capuchin", "mimose", "checkpoint"));

// --- by hand --------------------------------------------------------------------------------------------------------

// Layers in a chain, the backward in reverse; `takes` and `sizes` by layer. A weight is updated at the end.
Trace chain(const std::vector<Nanos>& takes, const std::vector<Bytes>& sizes, Nanos backward = 2_ms) {
  StepMaker maker;
  maker.birth("x", sizes[0], StorageKind::input);
  maker.birth("w", sizes[0], StorageKind::parameter);
  const int count = static_cast<int>(takes.size());
  const auto name = [](int i) { return i < 0 ? std::string("x") : "a" + std::to_string(i); };
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    for (int i = 0; i < count; ++i) {
      maker.birth(name(i), sizes[static_cast<std::size_t>(i)]);
      maker.op("layer", {.in = {name(i - 1)}, .out = {name(i)}, .takes = takes[static_cast<std::size_t>(i)]});
    }
    for (int i = count - 1; i >= 0; --i) {
      maker.op("back", {.in = {name(i)}, .takes = backward, .phase = Phase::backward});
      maker.death(name(i));
    }
    maker.op("update", {.in = {}, .write = {"w"}, .takes = 1_ms, .replayable = false, .phase = Phase::optimizer});
    maker.end();
  }
  return maker.trace();
}

Trace chain(const std::vector<Nanos>& takes, Bytes size, Nanos backward = 2_ms) {
  return chain(takes, std::vector<Bytes>(takes.size(), size), backward);
}

Plan plan_by(const char* policy, const Trace& trace, Bytes budget) {
  const Liveness step(trace, *find_steady_step(trace));
  return find_plan_policy(policy)->plan({.step = step, .costs = kCard, .budget = budget}, {});
}

// 16 layers: 4 segments of 4; the last of each is read by the next one's first.
TEST(CheckpointPlan, KeepsWhatCrossesTheBordersOfSqrtSegments) {
  const Trace trace = chain(std::vector<Nanos>(16, 1_ms), 16_MiB);
  const Plan plan = plan_by("checkpoint", trace, 200_MiB);
  std::set<StoragePlace> dropped;
  for (const PlannedGap& gap : plan.gaps) {
    EXPECT_EQ(gap.remedy, Remedy::drop);
    dropped.insert(gap.gap.storage);
  }
  // The last segment ends with the forward: what its last layer made is wanted at once.
  EXPECT_EQ(dropped.size(), 12u);
  EXPECT_EQ(plan.predicted.rebuild, (1_ms + 4_us) * 12);  // every dropped layer once
}

// Blocks of equal size are one bucket: of those the earliest go, as many as the excess asks for.
TEST(MimosePlan, DropsTheEarliestBlocksAndNoMoreThanNeeded) {
  const Trace trace = chain(std::vector<Nanos>(16, 1_ms), 16_MiB);  // 288 MiB; 4 blocks that keep 48 MiB each
  const auto begins = [&](Bytes budget) {
    std::vector<OpPlace> found;
    for (const PlannedGap& gap : plan_by("mimose", trace, budget).gaps) {
      EXPECT_EQ(gap.remedy, Remedy::drop);
      found.push_back(gap.gap.begin);
    }
    return found;
  };
  EXPECT_EQ(begins(250_MiB), (std::vector<OpPlace>{2, 3, 4}));
  EXPECT_EQ(begins(230_MiB), (std::vector<OpPlace>{2, 3, 4, 6, 7, 8}));
}

// Four blocks of four layers: three that it keeps, and one that the next block reads.
std::set<int> blocks_mimose_drops(const std::vector<Bytes>& kept, Bytes excess) {
  std::vector<Bytes> sizes;
  for (const Bytes block : kept) {
    sizes.insert(sizes.end(), 3, block / 3);
    sizes.push_back(1_MiB);
  }
  const Trace trace = chain(std::vector<Nanos>(16, 1_ms), sizes);
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  std::set<int> blocks;
  for (const PlannedGap& gap : plan_by("mimose", trace, peak - excess).gaps) {
    EXPECT_EQ(gap.remedy, Remedy::drop);
    blocks.insert(static_cast<int>(gap.gap.begin - 2) / 4);  // a layer's result is idle once the next one has run
  }
  return blocks;
}

// Sorted by size: 102 and 96 are one bucket, the earlier of the two first; 48; 30.
TEST(MimosePlan, TakesTheTightestBucketThatCoversTheExcess) {
  const std::vector<Bytes> kept{48_MiB, 96_MiB, 102_MiB, 30_MiB};
  EXPECT_EQ(blocks_mimose_drops(kept, 25_MiB), (std::set{3}));
  EXPECT_EQ(blocks_mimose_drops(kept, 40_MiB), (std::set{0}));
  EXPECT_EQ(blocks_mimose_drops(kept, 60_MiB), (std::set{1}));
}

// The earliest of the bucket, whether or not it covers the excess itself; then the same again for what is left of it.
TEST(MimosePlan, GoesOnWithWhatIsLeftOfTheExcess) {
  const std::vector<Bytes> kept{48_MiB, 96_MiB, 102_MiB, 30_MiB};
  EXPECT_EQ(blocks_mimose_drops(kept, 98_MiB), (std::set{1, 3}));       // 102 covers it, 96 goes; 2 are left
  EXPECT_EQ(blocks_mimose_drops(kept, 130_MiB), (std::set{0, 1}));      // nobody covers it: of the largest bucket; 34 are left
  EXPECT_EQ(blocks_mimose_drops(kept, 190_MiB), (std::set{1, 2}));
  EXPECT_EQ(blocks_mimose_drops(kept, 210_MiB), (std::set{1, 2, 3}));
}

TEST(MimosePlan, ABucketHoldsWhatIsWithinATenthOfItsLargest) {
  EXPECT_EQ(blocks_mimose_drops({99_MiB, 30_MiB, 30_MiB, 90_MiB}, 50_MiB), (std::set{0}));  // one bucket: the earlier
  EXPECT_EQ(blocks_mimose_drops({99_MiB, 30_MiB, 30_MiB, 87_MiB}, 50_MiB), (std::set{3}));  // two: the tighter
}

// Free time decides: the first layers' outputs are idle longest and leave, in that order, and no more than needed.
TEST(CapuchinPlan, MovesThoseThatAreIdleLongestFirst) {
  const Trace trace = chain(std::vector<Nanos>(8, 3_ms), 16_MiB);
  const Plan plan = plan_by("capuchin", trace, 130_MiB);
  ASSERT_EQ(plan.gaps.size(), 2u);
  for (const PlannedGap& gap : plan.gaps) EXPECT_EQ(gap.remedy, Remedy::move);
  EXPECT_EQ(plan.gaps[0].gap.begin, 2u);  // a0, once a1 is made
  EXPECT_EQ(plan.gaps[1].gap.begin, 3u);
  EXPECT_EQ(plan.predicted.over, 0_B);
  EXPECT_EQ(plan.predicted.stall, 0_ns);
}

// Copies of 16 MiB take 0.3 ms; layers of 10 us leave no time for them and are run again instead.
TEST(CapuchinPlan, RunsAgainWhatHasNoTimeToMove) {
  const Trace trace = chain(std::vector<Nanos>(4, 10_us), 64_MiB, 10_us);
  const Plan plan = plan_by("capuchin", trace, 330_MiB);
  ASSERT_FALSE(plan.gaps.empty());
  for (const PlannedGap& gap : plan.gaps) EXPECT_EQ(gap.remedy, Remedy::drop);
}

// The weight is idle from its update to the next one: it leaves over the step's end.
TEST(TensilePlan, MovesAcrossTheStepsEnd) {
  const Trace trace = chain(std::vector<Nanos>(8, 3_ms), 16_MiB);
  const Plan plan = plan_by("tensile", trace, 150_MiB);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps[0].remedy, Remedy::move);
  EXPECT_GE(plan.gaps[0].gap.end, 17u);
  EXPECT_EQ(plan.predicted.over, 0_B);
}

TEST(TensilePlan, TwoCopiesNeverShareASlot) {
  // Out and in of a 64 MiB storage are 2.4 ms; between the layers' end and the backward is room for few of them.
  const Trace trace = chain(std::vector<Nanos>(6, 1_ms), 64_MiB);
  const Plan plan = plan_by("tensile", trace, 320_MiB);
  Bytes moved;
  for (const PlannedGap& gap : plan.gaps) moved += gap.remedy == Remedy::move ? 64_MiB : 0_B;
  const Liveness step(trace, *find_steady_step(trace));
  EXPECT_LE(2.0 * static_cast<double>(moved.count) / 55, static_cast<double>(step.starts().back().count));
}

// --- to the nanosecond ----------------------------------------------------------------------------------------------

// Layers of 1 MiB of these times, each backward reads its own layer's result alone, and nothing else is there.
Trace bare_chain(const std::vector<Nanos>& forward, const std::vector<Nanos>& backward) {
  StepMaker maker;
  const auto name = [](std::size_t i) { return "a" + std::to_string(i); };
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    for (std::size_t i = 0; i < forward.size(); ++i) {
      maker.birth(name(i), 1_MiB);
      maker.op("layer", {.in = i == 0 ? std::vector<std::string>{} : std::vector{name(i - 1)}, .out = {name(i)}, .takes = forward[i]});
    }
    for (std::size_t i = forward.size(); i-- > 0;) {
      maker.op("back", {.in = {name(i)}, .takes = backward[i], .replayable = false, .phase = Phase::backward});
      maker.death(name(i));
    }
    maker.end();
  }
  return maker.trace();
}

// A copy of any size takes this long; what has no rate at all cannot be moved.
Costs copies_of(Nanos takes) { return {.out_nanos_per_byte = 1e-9, .in_nanos_per_byte = 1e-9, .per_copy = takes}; }

Plan plan_with_copies_of(Nanos takes, const char* policy, const Trace& trace, Bytes budget) {
  const Liveness step(trace, *find_steady_step(trace));
  return find_plan_policy(policy)->plan({.step = step, .costs = copies_of(takes), .budget = budget}, {});
}

// op       a0     a1     a2  | b2   b1   b0       a0 is read by a1 and by b0: its free time is
// us        1  10000   1000  | 500  500  500      (b0 - copy) - (a2 + copy) = 2000 us - 2 copies
TEST(CapuchinPlan, FreeTimeIsWhatIsLeftOfTheGapWithoutBothCopies) {
  const Trace trace = bare_chain({1_us, 10_ms, 1_ms}, {500_us, 500_us, 500_us});
  const auto remedy_of_a0 = [&](Nanos copy) {
    const Plan plan = plan_with_copies_of(copy, "capuchin", trace, 2_MiB);
    EXPECT_EQ(plan.gaps.size(), 1u);
    EXPECT_EQ(plan.gaps.at(0).gap.begin, 2u);
    return plan.gaps.at(0).remedy;
  };
  EXPECT_EQ(remedy_of_a0(1_ms), Remedy::move);            // just enough
  EXPECT_EQ(remedy_of_a0(1_ms + 499_ns), Remedy::move);   // it lacks 998 ns, and to make it takes 1000
  EXPECT_EQ(remedy_of_a0(1_ms + 500_ns), Remedy::drop);
}

// Larger and idle longer, a0 has less free time than a1: 4.7 - 2.5 ms, 4.0 - 0.6.
TEST(CapuchinPlan, TakesTheFreestNotTheLargestOrTheLongestIdle) {
  std::vector<Bytes> sizes(8, 16_MiB);
  sizes[0] = 64_MiB;
  const Trace trace = chain(std::vector<Nanos>(8, 200_us), sizes, 500_us);
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  const Plan plan = plan_by("capuchin", trace, peak - 10_MiB);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps[0].gap.begin, 3u);
}

// Six layers of 1 ms; L5 and b5, ops 5 and 6, lack memory. a0 is wanted again by b0, op 11.
TEST(CapuchinPlan, AWayBackIsEnqueuedOneCopyAheadAndNotBeforeThePeakIsOver) {
  const auto enqueued = [](Nanos copy, Nanos b1 = 1_ms) {
    std::vector<Nanos> backward(6, 1_ms);
    backward[1] = b1;
    const Plan plan = plan_with_copies_of(copy, "capuchin", bare_chain(std::vector<Nanos>(6, 1_ms), backward), 5_MiB);
    EXPECT_EQ(plan.gaps.size(), 1u);
    return plan.gaps.at(0).fetch_at;
  };
  EXPECT_EQ(enqueued(1_ms), 10u);
  EXPECT_EQ(enqueued(1_ms, 1_ms - 1_ns), 9u);
  EXPECT_EQ(enqueued(3_ms), 8u);
  EXPECT_EQ(enqueued(4500_us), 7u);  // by its time 6
}

// op      L0 L1 L2 L3 L4 | b4 b3 b2 b1 b0        1 ms each, the peak at L4; a0 is idle from L2 on
TEST(TensilePlan, AWayOutHasToEndBeforeThePeakBegins) {
  const Trace trace = bare_chain(std::vector<Nanos>(5, 1_ms), std::vector<Nanos>(5, 1_ms));
  const Plan in_time = plan_with_copies_of(2_ms, "tensile", trace, 4_MiB);
  ASSERT_EQ(in_time.gaps.size(), 1u);
  EXPECT_EQ(in_time.gaps[0].remedy, Remedy::move);
  EXPECT_EQ(in_time.gaps[0].gap.begin, 2u);
  EXPECT_EQ(in_time.gaps[0].fetch_at, 7u);  // as late as the way back is home in time
  EXPECT_EQ(in_time.predicted.peak, 4_MiB);
  EXPECT_EQ(in_time.predicted.stall, 0_ns);
  const Plan late = plan_with_copies_of(2_ms + 1_ns, "tensile", trace, 4_MiB);
  ASSERT_EQ(late.gaps.size(), 1u);
  EXPECT_EQ(late.gaps[0].remedy, Remedy::drop);
}

// The same, with copies of 1.5 ms. The release has a0 away from the begin of its way out, 2 ms, to the end of its way in, 9 ms.
//
// op          L0 L1 L2 L3 L4 b4 b3 b2 b1 b0
// way out           =====
// way in                           =====
// the release  1  2  2  3  4  4  3  2  1  1
// ours         1  2  3  4  4  4  3  3  2  1
TEST(TensilePlan, WhoLeavesCountsUntilItIsOutAndWhoReturnsFromWhenItBeginsTo) {
  const Trace trace = bare_chain(std::vector<Nanos>(5, 1_ms), std::vector<Nanos>(5, 1_ms));
  const Liveness step(trace, *find_steady_step(trace));
  const PlanRequest request{.step = step, .costs = copies_of(1500_us), .budget = 4_MiB};
  const Plan plan = plan_tensile(request);
  ASSERT_EQ(plan.gaps.size(), 1u);
  const Problem problem(request);
  Timeline timeline(problem);
  std::vector<std::int64_t> mebibytes;
  for (const Bytes bytes : timeline.run(choices_of(problem, plan)).during) mebibytes.push_back(bytes.count >> 20);
  EXPECT_EQ(mebibytes, (std::vector<std::int64_t>{1, 2, 3, 4, 4, 4, 3, 3, 2, 1}));
}

// --- SuperNeurons by hand -------------------------------------------------------------------------------------------

// a3 is dear; the others around it are cheap.
TEST(SuperNeuronsPlan, MovesTheDearAndDropsTheCheapWhenMovesDoNotDo) {
  std::vector<Nanos> takes(10, 100_us);
  takes[3] = 5_ms;
  takes[6] = 5_ms;
  const Trace trace = chain(takes, 16_MiB);
  const Plan moves = plan_by("superneurons", trace, 190_MiB);
  ASSERT_EQ(moves.gaps.size(), 2u);
  for (const PlannedGap& gap : moves.gaps) EXPECT_EQ(gap.remedy, Remedy::move);
  const Plan both = plan_by("superneurons", trace, 100_MiB);
  EXPECT_GT(std::ranges::count(both.gaps, Remedy::drop, &PlannedGap::remedy), 4);
  EXPECT_EQ(std::ranges::count(both.gaps, Remedy::move, &PlannedGap::remedy), 2);
}

}  // namespace
}  // namespace spillway
