// The timeline that judges plans against the simulator that runs them: the same peak, and nearly always the same time to a
// thousandth.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "liveness/curve.h"
#include "liveness/floor.h"
#include "property/random_steps.h"
#include "sim/card_times.h"
#include "sim/simulate.h"
#include "support/long_run.h"
#include "unit/sim/sim_card.h"

namespace spillway {
namespace {

using testing::quick_card;
using testing::RandomStep;
using testing::scaled;

// Copies each way do not slow each other: the timeline knows one rate a direction.
Card simple_card() {
  Card card = quick_card();
  card.out_both = card.out;
  card.in_both = card.in;
  return card;
}

struct Compared {
  bool planned = false, surprised = false;
  Bytes peak, predicted_peak;
  double off = 0;  // of the predicted time, as a fraction
  Bytes rebuilt;
  std::int64_t lean = 0;
  std::ptrdiff_t for_good = 0;  // that a first plan sends away and nobody wants again
};

struct Kind {
  bool seeds = false, places = true, lean = false, lingers = false;
};

// Every other pair of seeds has storages of one size, the rest of four; lean ones have one.
Compared compare(std::uint32_t seed, Kind kind) {
  const bool varied = !kind.lean && seed / 2 % 2 == 1;
  const Trace trace = RandomStep({.layers = 6 + static_cast<int>(seed % 20), .size = varied ? 6_MiB : 16_MiB, .seeds = kind.seeds, .lean = kind.lean, .lingers = kind.lingers, .sizes = varied ? 4 : 1}, seed).make();
  const Liveness step(trace, *find_steady_step(trace));
  const auto ends = [](const PlannedGap& planned) { return planned.gap.ends; };
  const Bytes peak = live_curve(step).peak, floor = find_floor(step).bytes;
  const Bytes budget = round_up(floor + (peak - floor) * static_cast<std::int64_t>(1 + seed % 8) / 10, 16_MiB) + 32_MiB;
  const SimResult result = simulate(trace, {.card = simple_card(), .budget = budget, .policy = "hybrid", .steps = 14, .places = kind.places});
  EXPECT_FALSE(result.unfit.has_value()) << seed;
  EXPECT_LE(result.stats.peak_reserved, budget) << seed;
  const SimStep& last = result.steps.back();
  EXPECT_LE(last.predicted.peak, budget) << seed;
  EXPECT_GE(last.predicted.peak, last.predicted.peak_home) << seed;
  return {.planned = last.planned,
          .surprised = last.surprises > 0,
          .peak = last.peak_live,
          .predicted_peak = last.predicted.peak_home,
          .off = static_cast<double>(last.time.count) / static_cast<double>(last.predicted.time.count) - 1,
          .rebuilt = last.rebuilt,
          .lean = result.stats.lean_rebuilds,
          .for_good = std::ranges::count(plan_hybrid({.step = step, .costs = costs_of(simple_card()), .budget = budget}).gaps, GapEnd::death, ends)};
}

// Parts of the time: of any step, of all but one in a hundred, and of all but one in ten.
constexpr double kMostOff = 0.03, kOff = 0.01, kNear = 0.001;

struct Tally {
  int planned = 0, off = 0, near = 0;

  void note(double by) {
    ++planned;
    off += std::abs(by) > kOff ? 1 : 0;
    near += std::abs(by) < kNear ? 1 : 0;
  }
  void expect_of(std::uint32_t seeds) const {
    EXPECT_GT(planned, static_cast<int>(seeds) * 2 / 3);
    EXPECT_LE(off, planned / 100);
    EXPECT_GT(near, planned * 9 / 10);
  }
};

// In the last step of a run that went by its plan; false: it did not, and says nothing.
bool is_as_foretold(const Compared& found, std::uint32_t seed) {
  if (!found.planned || found.surprised) return false;
  EXPECT_EQ(found.peak, found.predicted_peak) << seed;
  EXPECT_LT(std::abs(found.off), kMostOff) << seed;
  return true;
}

TEST(PlanTimeline, IsWhatTheSimulatorMakesOfThePlan) {
  Tally tally;
  const auto seeds = static_cast<std::uint32_t>(scaled(60));
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const Compared found = compare(seed, {});
    if (is_as_foretold(found, seed)) tally.note(found.off);
  }
  tally.expect_of(seeds);
  EXPECT_GT(tally.planned, static_cast<int>(seeds) * 9 / 10);
}

// The same where gradients are rebuilt from small storages that died long before.
TEST(PlanTimeline, KnowsWhoIsKeptBeyondItsDeath) {
  Tally tally;
  int rebuilding = 0;
  const auto seeds = static_cast<std::uint32_t>(scaled(40));
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const Compared found = compare(seed, {.seeds = true});
    if (!is_as_foretold(found, seed)) continue;
    tally.note(found.off);
    rebuilding += found.rebuilt > 0_B ? 1 : 0;
  }
  tally.expect_of(seeds);
  EXPECT_GT(rebuilding, tally.planned / 3);
}

// The same where storages live on after their last use, gradients into the next step: they leave for good.
TEST(PlanTimeline, KnowsWhoLeavesForGood) {
  Tally tally;
  int for_good = 0;
  const auto seeds = static_cast<std::uint32_t>(scaled(40));
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const Compared found = compare(seed, {.lingers = true});
    if (!is_as_foretold(found, seed)) continue;
    tally.note(found.off);
    for_good += found.for_good > 0 ? 1 : 0;
  }
  tally.expect_of(seeds);
  EXPECT_GT(for_good, tally.planned / 2);
}

// Without places the pool gives a way in or an op the place of a storage that is still leaving by its address, while the timeline gives
// that of the one that left first: a step may be slower than was foretold, too. Ways back that were waited for begin earlier then, and
// are home beside others.
TEST(PlanTimeline, IsNearWhereBlocksHaveNoPlaces) {
  int planned = 0, exact = 0;
  double sum = 0;
  const auto seeds = static_cast<std::uint32_t>(scaled(30));
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const Compared found = compare(seed, {.places = false});
    if (!found.planned || found.surprised) continue;
    ++planned;
    exact += found.peak == found.predicted_peak ? 1 : 0;
    EXPECT_GE(found.peak, found.predicted_peak) << seed;
    EXPECT_LT(std::abs(found.off), 0.04) << seed;
    sum += std::abs(found.off);
  }
  EXPECT_GT(planned, static_cast<int>(seeds) * 9 / 10);
  EXPECT_GT(exact, planned * 9 / 10);
  EXPECT_LT(sum / planned, 0.01);
}

// The same where much is made again in one pass from small results that stay.
TEST(PlanTimeline, KnowsWhatIsRebuiltLean) {
  Tally tally;
  int lean = 0;
  const auto seeds = static_cast<std::uint32_t>(scaled(40));
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const Compared found = compare(seed, {.lean = true});
    if (!is_as_foretold(found, seed)) continue;
    tally.note(found.off);
    lean += found.lean > 0 ? 1 : 0;
  }
  tally.expect_of(seeds);
  EXPECT_GT(lean, tally.planned / 2);
}

}  // namespace
}  // namespace spillway
