// The papers' planners: on recorded steps what each promises, and by hand what each says it does.
#include "plan/papers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "liveness/curve.h"
#include "liveness/steps.h"
#include "plan/policies.h"
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
