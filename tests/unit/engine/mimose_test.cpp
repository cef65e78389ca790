// Mimose's estimator is a quadratic of the input's size for each block. Here the forecast tells the sizes of all that a step makes,
// so the plan for a size never seen is the plan of the step itself.
#include <gtest/gtest.h>

#include <string>

#include "forecast/forecast.h"
#include "liveness/curve.h"
#include "liveness/steps.h"
#include "plan/papers.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

constexpr int kLayers = 16;  // four blocks

// The second block grows with the square of the length and is the smallest of short steps and the largest of long ones.
Bytes size_of(int layer, std::int64_t length) {
  const std::int64_t linear[] = {4096, 0, 6144, 8192};
  return layer / 4 == 1 ? Bytes{48 * length * length} : Bytes{linear[layer / 4] * length};
}

Liveness step_of(std::int64_t length) {
  testing::StepMaker maker;
  maker.birth("w", 64_KiB, StorageKind::parameter);
  const auto name = [](int layer) { return layer < 0 ? std::string("ids") : "a" + std::to_string(layer); };
  maker.begin();
  maker.birth("ids", Bytes{8 * length}, StorageKind::input);
  for (int layer = 0; layer < kLayers; ++layer) maker.make(name(layer), size_of(layer, length), {name(layer - 1), "w"});
  for (int layer = kLayers; layer-- > 0;) {
    maker.op("back", {.in = {name(layer), "w"}, .phase = Phase::backward});
    maker.death(name(layer));
  }
  maker.op("update", {.write = {"w"}, .replayable = false, .phase = Phase::optimizer});
  maker.death("ids");
  maker.end();
  return Liveness(maker.trace(), find_whole_steps(maker.trace())[0]);
}

std::vector<OpPlace> dropped_by_mimose(const Liveness& step, Bytes excess) {
  std::vector<OpPlace> begins;
  for (const PlannedGap& gap : plan_mimose({.step = step, .costs = {}, .budget = live_curve(step).peak - excess}).gaps) begins.push_back(gap.gap.begin);
  return begins;
}

TEST(MimosePlan, ForASizeNeverSeenIsThatOfTheStep) {
  Forecast forecast;
  std::shared_ptr<const StepKind> kind;
  std::vector<std::uint64_t> keys;
  for (std::uint64_t op = 0; op < 2 * kLayers + 1; ++op) keys.push_back(op);
  for (const int length : {40, 110, 75, 60}) kind = forecast.observe(step_of(length), keys);

  std::vector<std::vector<OpPlace>> plans;
  for (const int length : {50, 100, 190, 140}) {
    const Liveness real = step_of(length);
    Liveness foreseen = kind->model();
    const auto told = kind->predict(kind->signature(real, shape_of(real, keys)));
    ASSERT_TRUE(told) << length;
    foreseen.set_figures(told->figures);
    const Bytes excess = size_of(0, length) * 4;  // more than the first block keeps
    plans.push_back(dropped_by_mimose(foreseen, excess));
    EXPECT_EQ(plans.back(), dropped_by_mimose(real, excess)) << length;
    EXPECT_EQ(plans.back().size(), 3u) << length;
  }
  EXPECT_NE(plans.front(), plans.back());  // which block it is depends on the length
}

}  // namespace
}  // namespace spillway
