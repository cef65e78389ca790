#include "forecast/forecast.h"

#include <gtest/gtest.h>

#include "forecast/rehearsal.h"
#include "liveness/curve.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

// weights --+--> hidden 1 --> scores 1 --> hidden 2 --> scores 2 ... --> loss, and back
class Model {
 public:
  Model() { steps_.birth("weights", 1_MiB, StorageKind::parameter); }

  // `jump`: of a layer's hidden storage at most, in no way a matter of the length.
  void step(std::int64_t batch, std::int64_t length, int layers = 3, bool fused = false, std::int64_t jump = 0) {
    steps_.begin();
    steps_.birth("ids", Bytes{8 * batch * length}, StorageKind::input);
    steps_.make("positions", Bytes{8 * length}, {"ids"});
    std::string last = "ids";
    for (int layer = 0; layer < layers; ++layer) {
      const std::string hidden = "hidden" + std::to_string(layer), scores = "scores" + std::to_string(layer);
      make(hidden, Bytes{256 * batch * length + jump * (length * (layer + 7) % 11) / 10}, {last, "weights"}, 100 * batch * length);
      if (!fused) make(scores, Bytes{32 * batch * length * length}, {hidden}, 3 * batch * length * length);
      last = fused ? hidden : scores;
    }
    for (int layer = layers; layer-- > 0;) {
      const std::string hidden = "hidden" + std::to_string(layer), scores = "scores" + std::to_string(layer);
      steps_.op("back", {.in = fused ? std::vector{hidden} : std::vector{hidden, scores}, .workspace = Bytes{64 * batch * length}});
      steps_.death(hidden);
      if (!fused) steps_.death(scores);
    }
    steps_.death("positions");
    steps_.death("ids");
    steps_.end();
  }

  [[nodiscard]] const Trace& trace() const { return steps_.trace(); }

 private:
  void make(const std::string& name, Bytes size, std::vector<std::string> in, std::int64_t takes) {
    steps_.birth(name, size);
    steps_.op("make", {.in = std::move(in), .out = {name}, .takes = Nanos{takes}});
  }
  StepMaker steps_;
};

TEST(Rehearsal, TellsPeakAndTimeOfSizesNeverSeen) {
  Model model;
  for (const int length : {64, 128, 32, 100, 90, 140, 47, 77}) model.step(4, length);

  const std::vector<RehearsedStep> steps = rehearse(model.trace());

  ASSERT_EQ(steps.size(), 8u);
  EXPECT_FALSE(steps[0].told);
  for (std::size_t i = 3; i < steps.size(); ++i) {
    ASSERT_TRUE(steps[i].told) << i;
    EXPECT_EQ(steps[i].kind, 0u);
    EXPECT_EQ(steps[i].told->peak, steps[i].peak) << i;
    EXPECT_EQ(steps[i].told->margin, 0_B) << i;
  }
  const auto off = static_cast<double>(steps[7].told->time.count) / static_cast<double>(steps[7].time.count);
  EXPECT_NEAR(off, 1, 0.1);
}

// Every storage may be wrong by a jump, and no step is wrong by all of them at once.
TEST(Rehearsal, TheMarginIsWhatWasMissingBefore) {
  Model model;
  const int layers = 20;
  const Bytes jump = 30_KiB;
  for (int i = 0; i < 24; ++i) model.step(4, 40 + i * 37 % 100, layers, /*fused=*/true, jump.count);

  const std::vector<RehearsedStep> steps = rehearse(model.trace());

  Bytes margins, peaks;
  int enough = 0;
  for (std::size_t i = 16; i < steps.size(); ++i) {
    ASSERT_TRUE(steps[i].told) << i;
    margins += steps[i].told->margin;
    peaks += steps[i].peak;
    enough += steps[i].told->peak + steps[i].told->margin >= steps[i].peak ? 1 : 0;
  }
  EXPECT_GE(enough, 6);  // of eight; the evictor does the rest
  EXPECT_LE(margins, peaks * 15 / 100);  // the worst of every storage at once would be 28
}

TEST(Rehearsal, BatchAndLengthMayBothChange) {
  Model model;
  for (const auto& [batch, length] : std::vector<std::pair<int, int>>{{4, 64}, {8, 128}, {5, 33}, {8, 100}, {2, 90}, {7, 140}, {6, 47}, {3, 77}, {4, 120}}) {
    model.step(batch, length);
  }

  const std::vector<RehearsedStep> steps = rehearse(model.trace());

  EXPECT_EQ(steps[8].signature.size(), 2u);
  ASSERT_TRUE(steps[8].told);
  EXPECT_EQ(steps[8].told->peak, steps[8].peak);
}

TEST(Rehearsal, OtherOpsAreAnotherKindOfStep) {
  Model model;
  for (const int length : {64, 256, 32, 300, 90, 280}) model.step(4, length, 3, /*fused=*/length > 200);

  const std::vector<RehearsedStep> steps = rehearse(model.trace());

  EXPECT_EQ(steps[0].kind, 0u);
  EXPECT_EQ(steps[1].kind, 1u);
  EXPECT_FALSE(steps[1].told);
  EXPECT_EQ(steps[4].kind, 0u);
  EXPECT_EQ(steps[5].kind, 1u);
  ASSERT_TRUE(steps[5].told);
  EXPECT_EQ(steps[5].told->peak, steps[5].peak);
}

TEST(Rehearsal, SaysNothingOfSizesFarFromAllThatWasSeen) {
  Model model;
  for (const int length : {64, 128, 96, 300, 30}) model.step(4, length);

  const std::vector<RehearsedStep> steps = rehearse(model.trace());

  EXPECT_FALSE(steps[3].told);
  EXPECT_FALSE(steps[4].told);
}

TEST(StepKind, KnowsItsSignatureEarly) {
  Model model;
  for (const int length : {64, 128, 96}) model.step(4, length);
  Forecast forecast;
  std::shared_ptr<const StepKind> kind;
  for (const WholeStep& whole : find_whole_steps(model.trace())) {
    const Liveness step(model.trace(), whole);
    kind = forecast.observe(step, name_keys(model.trace(), step));
  }

  EXPECT_EQ(forecast.kinds(), 1u);
  EXPECT_EQ(kind->coordinates().size(), 1u);
  EXPECT_EQ(kind->known_after(), 1u);
  EXPECT_EQ(kind->samples(), 3u);
}

TEST(Forecast, ShapesThatNeverComeAgainLeaveTheOthersAlone) {
  Model model;
  for (const int length : {64, 128, 96}) model.step(4, length);
  for (int layers = 4; layers < 74; ++layers) model.step(1, 8, layers);
  Forecast forecast;
  std::shared_ptr<const StepKind> first;
  for (const WholeStep& whole : find_whole_steps(model.trace())) {
    const Liveness step(model.trace(), whole);
    const auto kind = forecast.observe(step, name_keys(model.trace(), step));
    if (!first) first = kind;
  }

  EXPECT_EQ(forecast.kinds(), 64u);
  ASSERT_NE(forecast.find(first->shape().key), nullptr);
  EXPECT_EQ(forecast.find(first->shape().key)->samples(), 3u);
}

TEST(StepFigures, MakeAnotherStepOfTheSameOps) {
  Model small, large;
  small.step(4, 64);
  large.step(4, 128);
  Liveness step(small.trace(), find_whole_steps(small.trace())[0]);
  const Liveness wanted(large.trace(), find_whole_steps(large.trace())[0]);
  StepFigures figures;
  for (const LiveStorage& storage : wanted.storages()) figures.sizes.push_back(storage.size);
  for (const LiveOp& op : wanted.ops()) figures.ops.push_back({op.transient, op.workspace, op.duration});

  step.set_figures(figures);

  EXPECT_EQ(live_curve(step).peak, live_curve(wanted).peak);
  EXPECT_EQ(step.starts().back(), wanted.starts().back());
}

// What makes an op's results again is a kernel over the same bytes.
TEST(StepFigures, ChangeTheTimeOfATwinWithTheOps) {
  testing::StepMaker maker;
  maker.begin();
  maker.op("pool", {.takes = 600_us, .again = 200_us});
  maker.op("relu", {.takes = 100_us});
  maker.end();
  Liveness step(maker.trace(), find_whole_steps(maker.trace())[0]);

  step.set_figures({.sizes = {}, .ops = {{.duration = 900_us}, {.duration = 300_us}}});

  EXPECT_EQ(step.ops()[0].time_again(), 300_us);
  EXPECT_EQ(step.ops()[1].time_again(), 300_us);
}

}  // namespace
}  // namespace spillway
