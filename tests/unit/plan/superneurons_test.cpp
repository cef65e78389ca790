// SuperNeurons: its networks as steps, through liveness and planner, against the figures of its tables; and by hand, how often a
// segment is run again and what that takes.
//
// A step here is made of data alone, as the paper counts: no parameters, no workspaces, and not the batch itself. Backwards
// need what the release's table says. Where the paper does not say which gradients share a buffer, its figures do: AlexNet's 36
// tensors of 2189.437 MB are 23 results, the batch, and 12 gradients, if those of ReLU, LRN and softmax are written over what
// they are made from.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "liveness/curve.h"
#include "liveness/steps.h"
#include "plan/papers.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::OpLine;
using testing::StepMaker;

// A copy of the largest result takes 29 ms at the paper's 8 GB/s: dear layers hide it.
constexpr Nanos kDear = 100_ms, kCheap = 10_ms, kReplay = 4_us;
constexpr Costs kPaperCard{.out_nanos_per_byte = 1 / 8.0, .in_nanos_per_byte = 1 / 8.0, .per_copy = 10_us, .per_replay = kReplay};

enum class Gradient { none, fresh, in_place };
struct Kind {
  bool input, output;  // which of them its backward reads
  Gradient gradient;
  Nanos takes = kCheap;
  bool checkpoint = false;  // never run again; a step knows no types, so that it could not be is said there
};
constexpr Kind kConv{.input = true, .output = false, .gradient = Gradient::fresh, .takes = kDear, .checkpoint = true};
constexpr Kind kFirstConv{.input = false, .output = false, .gradient = Gradient::none, .takes = kDear, .checkpoint = true};
constexpr Kind kFull{.input = true, .output = false, .gradient = Gradient::fresh, .checkpoint = true};
constexpr Kind kRelu{.input = true, .output = true, .gradient = Gradient::in_place};
constexpr Kind kLrn{.input = true, .output = true, .gradient = Gradient::in_place};
constexpr Kind kPool{.input = true, .output = true, .gradient = Gradient::fresh};
constexpr Kind kNorm{.input = true, .output = false, .gradient = Gradient::fresh};
constexpr Kind kDropout{.input = false, .output = false, .gradient = Gradient::fresh};  // its mask is of bits

// Layers by what they return; the backward follows in reverse, and everything dies after its last use.
class Net {
 public:
  std::string add(const Kind& kind, const std::string& in, Bytes size) {
    const std::string out = make(size);
    run({.in = in.empty() ? std::vector<std::string>{} : std::vector{in}, .out = {out}, .takes = kind.takes, .replayable = !kind.checkpoint});
    backwards_.push_back([this, kind, in, out] {
      OpLine line{.in = {}, .takes = 2 * kind.takes.count * 1_ns, .replayable = false, .phase = Phase::backward};
      if (kind.input) line.in.push_back(in);
      if (kind.output) line.in.push_back(out);
      (kind.gradient == Gradient::in_place ? line.write : line.in).push_back(gradients_.at(out));
      if (kind.gradient == Gradient::in_place) gradients_[in] = gradients_.at(out);
      if (kind.gradient == Gradient::fresh) line.out = {gradients_[in] = make(sizes_.at(in))};
      run(line);
    });
    return out;
  }
  std::string same(const Kind& kind, const std::string& in) { return add(kind, in, sizes_.at(in)); }

  // Its gradient is written over what it returns.
  void softmax(const std::string& in) {
    const std::string out = make(sizes_.at(in));
    run({.in = {in}, .out = {out}, .takes = kCheap, .replayable = false});
    backwards_.push_back([this, in, out] {
      run({.in = {}, .write = {gradients_[in] = out}, .takes = kCheap, .replayable = false, .phase = Phase::backward});
    });
  }

  // Two copies; the gradients of both are added in the second's.
  std::pair<std::string, std::string> fork(const std::string& in) {
    const std::string one = make(sizes_.at(in)), other = make(sizes_.at(in));
    run({.in = {in}, .out = {one, other}, .takes = kDear, .replayable = false});
    backwards_.push_back([this, in, one, other] {
      run({.in = {gradients_.at(one)}, .write = {gradients_[in] = gradients_.at(other)}, .takes = kDear, .replayable = false, .phase = Phase::backward});
    });
    return {one, other};
  }

  // The gradient of the sum is that of both.
  std::string join(const std::string& one, const std::string& other) {
    const std::string out = make(sizes_.at(one));
    run({.in = {one, other}, .out = {out}, .takes = kDear, .replayable = false});
    backwards_.push_back([this, one, other, out] { gradients_[one] = gradients_[other] = gradients_.at(out); });
    return out;
  }

  [[nodiscard]] Trace trace() {
    while (!backwards_.empty()) {
      const auto backward = std::move(backwards_.back());
      backwards_.pop_back();
      backward();
    }
    StepMaker maker;
    for (int step = 0; step < 2; ++step) write(maker);
    return maker.trace();
  }

 private:
  std::string make(Bytes size) {
    const std::string name = std::to_string(sizes_.size());
    sizes_[name] = size;
    return name;
  }
  void run(const OpLine& line) {
    for (const auto& names : {line.in, line.out, line.write}) {
      for (const std::string& name : names) last_use_[name] = lines_.size();
    }
    lines_.push_back(line);
  }
  void write(StepMaker& maker) const {
    maker.begin();
    for (std::size_t at = 0; at < lines_.size(); ++at) {
      for (const std::string& name : lines_[at].out) maker.birth(name, sizes_.at(name));
      maker.op("layer", lines_[at]);
      for (const auto& [name, last] : last_use_) {
        if (last == at) maker.death(name);
      }
    }
    maker.end();
  }

  std::map<std::string, Bytes> sizes_;
  std::map<std::string, std::string> gradients_;  // by what they are of: the storage they are in
  std::map<std::string, std::size_t> last_use_;
  std::vector<OpLine> lines_;
  std::vector<std::function<void()>> backwards_;
};

Bytes maps(std::int64_t batch, std::int64_t channels, std::int64_t side) { return Bytes{4 * batch * channels * side * side}; }

double mega(Bytes bytes) { return static_cast<double>(bytes.count) / (1 << 20); }  // the paper's MB
Bytes from_mega(double mega) { return Bytes{static_cast<std::int64_t>(mega * (1 << 20))}; }

class Planned {
 public:
  explicit Planned(Net&& net) : trace_(net.trace()) {}

  [[nodiscard]] const Liveness& step() const { return step_; }
  [[nodiscard]] Bytes peak() const { return live_curve(step_).peak; }
  [[nodiscard]] Plan plan(Bytes budget) const {
    const Plan found = plan_superneurons(request(budget));
    const Prediction told = predict(request(budget), found);  // as the timeline of the whole problem has it
    EXPECT_EQ(found.predicted.peak, told.peak);
    EXPECT_EQ(found.predicted.rebuild, told.rebuild);
    return found;
  }
  // The plan with every segment run again once, or for each backward.
  [[nodiscard]] Prediction with(Plan plan, bool again, Bytes budget) const {
    for (PlannedGap& gap : plan.gaps) gap.again = gap.remedy == Remedy::drop && again;
    return predict(request(budget), plan);
  }

 private:
  [[nodiscard]] PlanRequest request(Bytes budget) const { return {.step = step_, .costs = kPaperCard, .budget = budget}; }

  Trace trace_;
  Liveness step_{trace_, *find_steady_step(trace_)};
};

std::int64_t runs(const Prediction& told) { return told.rebuild.count / (kCheap + kReplay).count; }
std::int64_t count(const Plan& plan, Remedy remedy) { return std::ranges::count(plan.gaps, remedy, &PlannedGap::remedy); }
std::int64_t count_again(const Plan& plan) { return std::ranges::count(plan.gaps, true, &PlannedGap::again); }

// --- AlexNet at batch 200 -------------------------------------------------------------------------------------------

Net alexnet() {
  const auto maps = [](std::int64_t channels, std::int64_t side) { return spillway::maps(200, channels, side); };
  Net net;
  std::string at = net.same(kLrn, net.same(kRelu, net.add(kFirstConv, "", maps(96, 55))));
  at = net.add(kPool, at, maps(96, 27));
  at = net.same(kLrn, net.same(kRelu, net.add(kConv, at, maps(256, 27))));
  at = net.add(kPool, at, maps(256, 13));
  for (const int channels : {384, 384, 256}) at = net.same(kRelu, net.add(kConv, at, maps(channels, 13)));
  at = net.add(kPool, at, maps(256, 6));
  for (int i = 0; i < 2; ++i) at = net.same(kDropout, net.same(kRelu, net.add(kFull, at, maps(4096, 1))));
  net.softmax(net.add(kFull, at, maps(1000, 1)));
  return net;
}

class AlexNet : public ::testing::Test {
 protected:
  const Planned alexnet_{alexnet()};
};

TEST_F(AlexNet, OneBufferForEachTensorIsThePapersBaseline) {
  Bytes all = maps(200, 3, 227);  // the batch, which the paper counts here and nowhere else
  std::size_t tensors = 1;
  for (const LiveStorage& storage : alexnet_.step().storages()) {
    if (storage.birth == storage.death) continue;
    all += storage.size;
    ++tensors;
  }
  EXPECT_EQ(tensors, 36u);
  EXPECT_NEAR(mega(all), 2189.437, 0.001);
}

TEST_F(AlexNet, LivenessHasThePapersPeakAtTheBackwardOfTheLastPool) {
  const LiveCurve curve = live_curve(alexnet_.step());
  EXPECT_NEAR(mega(curve.peak), 1489.355, 0.001);
  EXPECT_EQ(curve.peak_op, 31u);
  EXPECT_EQ(resident_at(alexnet_.step(), 31).size(), 17u);  // the paper's count, too
  EXPECT_TRUE(alexnet_.plan(curve.peak).gaps.empty());
}

// The peak is the backward of the second pool, when the second convolution is home again and the first is not. The paper's
// figure is 1132.155, a tenth of a megabyte more than any set of its tensors has.
TEST_F(AlexNet, MovedConvolutionsHaveThePapersPeak) {
  const Plan plan = alexnet_.plan(from_mega(1132.155));
  EXPECT_EQ(plan.gaps.size(), 5u);
  EXPECT_EQ(count(plan, Remedy::move), 5);
  EXPECT_NEAR(mega(plan.predicted.peak), 1132.055, 0.001);
  EXPECT_EQ(plan.predicted.over, 0_B);
  EXPECT_EQ(plan.predicted.stall, 0_ns);
}

// The backward of the first pool, with all of the first segment there.
TEST_F(AlexNet, SegmentsThatAreRunAgainOnceHaveThePapersPeakAndRuns) {
  const Plan plan = alexnet_.plan(from_mega(993.1));
  EXPECT_EQ(count(plan, Remedy::drop), 14);
  EXPECT_EQ(count_again(plan), 0);
  EXPECT_EQ(runs(plan.predicted), 14);
  EXPECT_NEAR(mega(plan.predicted.peak), 993.018, 0.001);
}

// The backward of the first LRN: the first convolution, ReLU and LRN, and the gradient. The paper has 886.23 in its table and
// 886.385 in its text.
TEST_F(AlexNet, TheLargestSegmentIsRunAgainForEachBackwardWhereTheBudgetIsTheLargestLayer) {
  const Bytes budget = from_mega(886.24);
  const Plan plan = alexnet_.plan(budget);
  EXPECT_EQ(count_again(plan), 3);
  EXPECT_EQ(runs(plan.predicted), 17);
  EXPECT_NEAR(mega(plan.predicted.peak), 886.23, 0.001);
  EXPECT_EQ(plan.predicted.over, 0_B);

  const Prediction once = alexnet_.with(plan, false, budget), each = alexnet_.with(plan, true, budget);
  EXPECT_EQ(runs(once), 14);
  EXPECT_EQ(runs(each), 23);
  EXPECT_NEAR(mega(once.peak), 993.018, 0.001);
  EXPECT_NEAR(mega(each.peak), 886.23, 0.001);
}

// --- ResNets --------------------------------------------------------------------------------------------------------

std::string pair_of_norm_and_relu(Net& net, const std::string& in) { return net.same(kRelu, net.same(kNorm, in)); }

// Forks and joins are checkpoints in the release.
Net resnet(const std::vector<int>& blocks, std::int64_t batch) {
  Net net;
  std::string at = pair_of_norm_and_relu(net, net.add(kFirstConv, "", maps(batch, 64, 112)));
  at = net.add(kPool, at, maps(batch, 64, 56));
  std::int64_t width = 64, side = 56;
  for (const int count : blocks) {
    for (int i = 0; i < count; ++i) {
      const auto [main, shortcut] = net.fork(at);
      at = pair_of_norm_and_relu(net, net.add(kConv, main, maps(batch, width, side)));
      at = pair_of_norm_and_relu(net, net.add(kConv, at, maps(batch, width, side)));
      at = net.same(kNorm, net.add(kConv, at, maps(batch, 4 * width, side)));
      const std::string beside = i > 0 ? shortcut : net.same(kNorm, net.add(kConv, shortcut, maps(batch, 4 * width, side)));
      at = net.same(kRelu, net.join(at, beside));
    }
    width *= 2;
    side /= 2;
  }
  net.softmax(net.add(kFull, net.add(kPool, at, maps(batch, 2048, 1)), maps(batch, 1000, 1)));
  return net;
}

struct ResNetRuns {
  std::vector<int> blocks;
  std::int64_t once, each, chosen;
};
class ResNet : public ::testing::TestWithParam<ResNetRuns> {};

// The peaks are those of the first segment: the backward of its pool, with convolution, norm, ReLU and pool there, or of its
// ReLU. The paper has 455.125 and 401 and does not tell the batch; at 32 ours are 3.1 and 2.2 % below, and no sum of these
// tensors was found that gives its figures.
TEST_P(ResNet, IsRunAgainAsOftenAsInThePaperAndNeedsNoMore) {
  const Planned net(resnet(GetParam().blocks, 32));
  const Plan once = net.plan(441_MiB), chosen = net.plan(392_MiB);
  EXPECT_EQ(runs(once.predicted), GetParam().once);
  EXPECT_EQ(runs(chosen.predicted), GetParam().chosen);
  EXPECT_EQ(once.predicted.peak, 441_MiB);
  EXPECT_EQ(chosen.predicted.peak, 392_MiB);

  const Prediction each = net.with(chosen, true, 392_MiB);
  EXPECT_EQ(runs(each), GetParam().each);
  EXPECT_EQ(each.peak, 392_MiB);
}

INSTANTIATE_TEST_SUITE_P(Depths, ResNet, ::testing::Values(ResNetRuns{{3, 4, 6, 3}, 84, 118, 85}, ResNetRuns{{3, 4, 23, 3}, 169, 237, 170}));

// --- by hand --------------------------------------------------------------------------------------------------------

// MiB      conv 40 - ReLU 40 - LRN 40 - pool 8 | conv 30 - ReLU 30 - pool 4 | full 2
// dropped            1st segment                     2nd segment
Net two_segments() {
  Net net;
  std::string at = net.same(kLrn, net.same(kRelu, net.add(kFirstConv, "", 40_MiB)));
  at = net.same(kRelu, net.add(kConv, net.add(kPool, at, 8_MiB), 30_MiB));
  net.softmax(net.add(kFull, net.add(kPool, at, 4_MiB), 2_MiB));
  return net;
}

// At the backward of the first pool: four of 40 (its gradient is one), pool and gradient.
TEST(SuperNeuronsSegments, AreRunAgainOnceWhereThatFits) {
  const Plan plan = Planned(two_segments()).plan(176_MiB);
  EXPECT_EQ(plan.predicted.peak, 176_MiB);
  EXPECT_EQ(count_again(plan), 0);
  EXPECT_EQ(runs(plan.predicted), 3 + 2);
}

// The largest layer is the backward of LRN, 120: the first segment takes more at once, 176, and the second 98.
TEST(SuperNeuronsSegments, OnlyThoseLargerThanTheLargestLayerAreRunAgainForEachBackward) {
  const Planned net(two_segments());
  const Plan plan = net.plan(170_MiB);
  EXPECT_EQ(plan.predicted.peak, 160_MiB);  // the backward of LRN, with the convolution it is made from
  EXPECT_EQ(plan.predicted.over, 0_B);
  for (const PlannedGap& gap : plan.gaps) {
    EXPECT_EQ(gap.again, gap.remedy == Remedy::drop && gap.gap.begin <= 5);  // up to the second convolution
  }
  EXPECT_EQ(runs(plan.predicted), 6 + 2);
  EXPECT_EQ(runs(net.with(plan, true, 170_MiB)), 6 + 3);
  EXPECT_EQ(net.with(plan, true, 170_MiB).peak, 160_MiB);
}

TEST(SuperNeuronsSegments, WhatDoesNotFitEitherWayTakesTheLowerOfTheTwo) {
  const Plan plan = Planned(two_segments()).plan(100_MiB);
  EXPECT_EQ(count_again(plan), 3);
  EXPECT_EQ(plan.predicted.peak, 160_MiB);
  EXPECT_EQ(plan.predicted.over, 60_MiB);
}

// The segment is larger (136) than the largest layer (the backward of ReLU, 120), but no more of it is there at once than the
// backward of its pool and the convolution: run again for each backward it would take as much.
TEST(SuperNeuronsSegments, AreNotRunAgainForEachBackwardForNothing) {
  Net net;
  const std::string at = net.add(kPool, net.same(kRelu, net.add(kFirstConv, "", 40_MiB)), 8_MiB);
  net.softmax(net.add(kFull, at, 2_MiB));
  const Planned planned(std::move(net));
  const Plan plan = planned.plan(130_MiB);
  EXPECT_EQ(count(plan, Remedy::drop), 2);
  EXPECT_EQ(count_again(plan), 0);
  EXPECT_EQ(plan.predicted.peak, 136_MiB);
  EXPECT_EQ(runs(plan.predicted), 2);
  EXPECT_EQ(planned.with(plan, true, 130_MiB).peak, 136_MiB);
  EXPECT_EQ(runs(planned.with(plan, true, 130_MiB)), 3);
}

// MiB      conv 40 - ReLU 40 - LRN 40 - pool 8 | conv 31 - ReLU 31 - LRN 31 - pool 4 | full 2
// Both segments are larger than the largest layer (120): 176 and 132. The second stays below what the backward of the first
// LRN takes in any case.
TEST(SuperNeuronsSegments, AreRunAgainOnceWhereOthersHoldThePeak) {
  Net net;
  std::string at = net.same(kLrn, net.same(kRelu, net.add(kFirstConv, "", 40_MiB)));
  at = net.same(kLrn, net.same(kRelu, net.add(kConv, net.add(kPool, at, 8_MiB), 31_MiB)));
  net.softmax(net.add(kFull, net.add(kPool, at, 4_MiB), 2_MiB));
  const Planned planned(std::move(net));
  const Plan plan = planned.plan(160_MiB);
  EXPECT_EQ(plan.predicted.peak, 160_MiB);
  EXPECT_EQ(count_again(plan), 3);
  EXPECT_EQ(runs(plan.predicted), 6 + 3);
  EXPECT_EQ(planned.with(plan, true, 160_MiB).peak, 160_MiB);
  EXPECT_EQ(runs(planned.with(plan, true, 160_MiB)), 6 + 6);
}

}  // namespace
}  // namespace spillway
