// The simulator judges the final plan: what a plan foretold of a recorded step against what the engine made of it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <tuple>

#include "liveness/curve.h"
#include "sim/simulate.h"
#include "support/long_run.h"
#include "unit/sim/sim_card.h"

namespace spillway {
namespace {

using testing::quick_card;
using testing::recorded;

class Foretold : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Foretold, IsWhatTheLastStepTakes) {
  const auto [name, percent] = GetParam();
  const Trace trace = recorded(name);
  const Bytes budget = live_curve(Liveness(trace, *find_steady_step(trace))).peak * percent / 100;

  const SimResult result = simulate(trace, {.card = quick_card(), .budget = budget, .steps = 12});

  ASSERT_EQ(result.steps.size(), 12u);
  const SimStep& last = result.steps.back();
  std::printf("FORETOLD %s %d planned %d time %.3f predicted %.3f off %.2f%% plain %.3f surprises %ld remaps %ld live %ld home %ld peak %ld budget %ld reserved %ld\n", name, percent, last.planned,
              static_cast<double>(last.time.count) / 1e6, static_cast<double>(last.predicted.time.count) / 1e6, 100.0 * (static_cast<double>(last.time.count) / static_cast<double>(last.predicted.time.count) - 1), static_cast<double>(result.plain_time.count) / 1e6, (long)last.surprises, (long)last.remaps,
              (long)last.peak_live.count, (long)last.predicted.peak_home.count, (long)last.predicted.peak.count, (long)budget.count, (long)result.stats.peak_reserved.count);
}

INSTANTIATE_TEST_SUITE_P(Traces, Foretold,
                         ::testing::Combine(::testing::Values("vgg16_b128", "resnet50_b256", "resnet50_b16_fp32", "vit_b_16_b256", "densenet121_b128", "gpt2m_16x1024"),
                                            ::testing::Values(80, 60, 45)),
                         [](const auto& info) { return std::get<0>(info.param) + ("_" + std::to_string(std::get<1>(info.param))); });

}  // namespace
}  // namespace spillway
