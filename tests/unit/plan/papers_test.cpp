// The papers' planners: their own numbers where they can be had, and on recorded steps what each promises.
#include "plan/papers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

// --- SuperNeurons' tables -------------------------------------------------------------------------------------------

enum class Type { conv, act, lrn, pool, fc, drop, bn, other };

// What the backward of each kind of layer needs, as the release has it: in and out are the layer's data.
PaperLayer layer(Type type, double in, double out) {
  const auto bytes = [](double count) { return Bytes{static_cast<std::int64_t>(count) * 4}; };
  const bool checkpoint = type == Type::conv || type == Type::fc || type == Type::other;
  switch (type) {
    case Type::act: return {bytes(out), bytes(out), bytes(in + out + out), checkpoint};           // dX over dY
    case Type::lrn:
    case Type::pool: return {bytes(out), bytes(in + out), bytes(2 * in + 2 * out), checkpoint};
    case Type::drop: return {bytes(out), bytes(in + out), bytes(in + out), checkpoint};           // a mask of bits
    case Type::bn: return {bytes(out), bytes(in + out), bytes(2 * in + out), checkpoint};
    default: return {bytes(out), bytes(in + out), bytes(2 * in + out), checkpoint};               // in, dY, dX
  }
}

class Chain {
 public:
  explicit Chain(double input) : size_(input) {}
  void add(Type type, double out) {
    layers.push_back(layer(type, size_, out));
    size_ = out;
  }
  void same(Type type) { add(type, size_); }
  std::vector<PaperLayer> layers;

 private:
  double size_;
};

constexpr double kMega = 1 << 20;  // the paper's MB
double mega(Bytes bytes) { return static_cast<double>(bytes.count) / kMega; }

// 23 layers at batch 200.
std::vector<PaperLayer> alexnet() {
  const auto maps = [](double channels, double side) { return 200 * channels * side * side; };
  Chain net(maps(3, 227));
  net.add(Type::conv, maps(96, 55));
  for (const Type type : {Type::act, Type::lrn}) net.same(type);
  net.add(Type::pool, maps(96, 27));
  net.add(Type::conv, maps(256, 27));
  for (const Type type : {Type::act, Type::lrn}) net.same(type);
  net.add(Type::pool, maps(256, 13));
  for (const double channels : {384, 384, 256}) {
    net.add(Type::conv, maps(channels, 13));
    net.same(Type::act);
  }
  net.add(Type::pool, maps(256, 6));
  for (int i = 0; i < 2; ++i) {
    net.add(Type::fc, maps(4096, 1));
    for (const Type type : {Type::act, Type::drop}) net.same(type);
  }
  net.add(Type::fc, maps(1000, 1));
  net.same(Type::other);
  return net.layers;
}

TEST(SuperNeuronsNumbers, AlexNetHas23LayersAndItsLargestIsTheBackwardOfTheFirstLrn) {
  const std::vector<PaperLayer> net = alexnet();
  EXPECT_EQ(net.size(), 23u);
  EXPECT_NEAR(mega(count_recomputation(net, Recomputation::memory).peak), 886.23, 0.01);
}

TEST(SuperNeuronsNumbers, AlexNetIsRunAgainAsOftenAsInThePaper) {
  const auto speed = count_recomputation(alexnet(), Recomputation::speed);
  const auto memory = count_recomputation(alexnet(), Recomputation::memory);
  const auto cost_aware = count_recomputation(alexnet(), Recomputation::cost_aware);
  EXPECT_EQ(speed.extra_runs, 14);
  EXPECT_EQ(memory.extra_runs, 23);
  EXPECT_EQ(cost_aware.extra_runs, 17);
  EXPECT_NEAR(mega(speed.peak), 993.018, 0.01);
  EXPECT_NEAR(mega(cost_aware.peak), 886.23, 0.01);
}

// The paper's stages over data tensors: 1489.355 MB with liveness (all forward outputs and the last layer's gradient), then
// 1132.155 with convolutions moved. Ours are 1.3 and 2.3 % below: the release keeps buffers its paper does not list (19 MB;
// dropout's reserve and the labels among them), and its formula leaves out that the last three convolutions are still there
// when the forward ends, which the measured figure has. Its baseline, 2189.437, depends on which gradients share a buffer
// in a release that does not say; separate buffers for all would be 2939.
TEST(SuperNeuronsNumbers, AlexNetsStagesAreThePapersWithinWhatItDoesNotList) {
  const std::vector<PaperLayer> net = alexnet();
  Bytes forward = net.back().gradients / 2;
  for (const PaperLayer& one : net) forward += one.forward;
  EXPECT_NEAR(mega(forward), 1489.355, 0.014 * 1489.355);
  const Bytes moved = net[0].forward + net[4].forward;  // conv1 and conv2: the others are still on their way
  EXPECT_NEAR(mega(forward - moved), 1132.155, 0.024 * 1132.155);
}

// Per block of a ResNet two pairs of batch norm and ReLU and the third batch norm; joins, and with them the ReLUs behind
// them and the shortcuts' batch norms, count as checkpoints: so 5 and 7 runs a block, and the tables' 84 / 118 / 85 and
// 169 / 237 / 170 leave two pairs for the rest: the stem's, which is the largest, and the one before the classifier.
std::vector<PaperLayer> resnet(const std::vector<int>& blocks) {
  Chain net(3.0 * 224 * 224);
  net.add(Type::conv, 64.0 * 112 * 112);
  for (const Type type : {Type::bn, Type::act}) net.same(type);
  net.add(Type::other, 64.0 * 56 * 56);
  double width = 64, side = 56;
  for (const int count : blocks) {
    for (int i = 0; i < count; ++i) {
      for (int pair = 0; pair < 2; ++pair) {
        net.add(Type::conv, width * side * side);
        for (const Type type : {Type::bn, Type::act}) net.same(type);
      }
      net.add(Type::conv, 4 * width * side * side);
      net.same(Type::bn);
      net.same(Type::other);
    }
    width *= 2;
    side /= 2;
  }
  net.same(Type::act);
  net.add(Type::pool, 2048);
  net.add(Type::fc, 1000);
  net.same(Type::other);
  return net.layers;
}

TEST(SuperNeuronsNumbers, ResNetsAreRunAgainAsOftenAsInThePaper) {
  const auto runs = [](const std::vector<int>& blocks, Recomputation how) { return count_recomputation(resnet(blocks), how).extra_runs; };
  EXPECT_EQ(runs({3, 4, 6, 3}, Recomputation::speed), 84);
  EXPECT_EQ(runs({3, 4, 6, 3}, Recomputation::memory), 118);
  EXPECT_EQ(runs({3, 4, 6, 3}, Recomputation::cost_aware), 85);
  EXPECT_EQ(runs({3, 4, 23, 3}, Recomputation::speed), 169);
  EXPECT_EQ(runs({3, 4, 23, 3}, Recomputation::memory), 237);
  EXPECT_EQ(runs({3, 4, 23, 3}, Recomputation::cost_aware), 170);
}

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
