// Planned steps are never slower than reactive ones under the same budget: simulated times are the same every time.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "liveness/curve.h"
#include "liveness/floor.h"
#include "property/random_steps.h"
#include "sim/simulate.h"
#include "support/long_run.h"
#include "unit/sim/sim_card.h"

namespace spillway {
namespace {

using testing::long_run;
using testing::quick_card;
using testing::RandomStep;
using testing::recorded;
using testing::scaled;

constexpr int kSteps = 40, kSettled = 32;  // plans are changed and tried until then

// A steady step; the reactive evictor has no two that are alike.
std::optional<Nanos> steady_time(const Trace& trace, Bytes budget, const char* policy) {
  const SimResult result = simulate(trace, {.card = quick_card(), .budget = budget, .policy = policy, .steps = kSteps});
  EXPECT_EQ(result.stats.violations, 0);
  if (result.unfit) return std::nullopt;
  Nanos sum;
  for (int i = kSettled; i < kSteps; ++i) sum += result.steps[static_cast<std::size_t>(i)].time;
  return sum / (kSteps - kSettled);
}

// `parts`: of the reactive time, one of which does not count; 0: all do.
void expect_no_slower(const Trace& trace, Bytes budget, const std::string& what, std::int64_t parts = 0) {
  const auto planned = steady_time(trace, budget, "hybrid");
  for (const char* policy : {"dtr", "lru"}) {
    const auto reactive = steady_time(trace, budget, policy);
    if (!reactive) continue;
    ASSERT_TRUE(planned.has_value()) << what << ": fits " << policy << " and no plan";
    EXPECT_LE(*planned, *reactive + (parts > 0 ? *reactive / parts : 0_ns)) << what << " against " << policy;
  }
}

// Of the step's peak, or a tenth above the floor.
struct Cell {
  const char* model;
  int percent;  // 0: near the floor
  bool quick = false;
};

// What takes a few seconds.
bool is_quick(std::string_view model, int percent) {
  if (model == "vgg16_b128") return true;  // near its floor, too; less than 40 % is below that
  return model == "resnet50_b256" && percent >= 25;
}

std::string share_of(const Cell& cell) { return cell.percent == 0 ? "near_its_floor" : std::to_string(cell.percent) + "_percent"; }


class PlannedStep : public ::testing::TestWithParam<Cell> {};

// The others take minutes.
TEST_P(PlannedStep, IsNoSlowerThanAReactiveOne) {
  const Cell& cell = GetParam();
  if (!cell.quick && !long_run()) GTEST_SKIP() << "only in the long run";
  const Trace trace = recorded(cell.model);
  const Liveness step(trace, *find_steady_step(trace));
  const Bytes floor = find_floor(step).bytes, budget = cell.percent == 0 ? floor * 11 / 10 : live_curve(step).peak * cell.percent / 100;
  if (budget < floor) GTEST_SKIP() << "below the floor";
  // There plans lack memory: much is left to reaction, no two of whose steps are alike.
  constexpr std::int64_t kPartsNearTheFloor = 100;
  expect_no_slower(trace, budget, share_of(cell), cell.percent == 0 ? kPartsNearTheFloor : 0);
}

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (const char* model : {"resnet50_b256", "vgg16_b128", "resnet50_b16_fp32", "vit_b_16_b256", "densenet121_b128", "gpt2m_16x1024"}) {
    for (const int percent : {80, 60, 45, 35, 25, 20, 0}) cells.push_back({model, percent, is_quick(model, percent)});
  }
  return cells;
}

INSTANTIATE_TEST_SUITE_P(Traces, PlannedStep, ::testing::ValuesIn(all_cells()),
                         [](const auto& tested) { return std::string(tested.param.model) + "_in_" + share_of(tested.param); });

TEST(PlannedRandomStep, IsNoSlowerThanAReactiveOne) {
  for (std::uint32_t seed = 0; seed < static_cast<std::uint32_t>(scaled(40)); ++seed) {
    const Trace trace = RandomStep({.layers = 6 + static_cast<int>(seed % 20)}, seed).make();
    const Liveness step(trace, *find_steady_step(trace));
    const Bytes peak = live_curve(step).peak, floor = find_floor(step).bytes;
    const Bytes budget = round_up(floor + (peak - floor) * static_cast<std::int64_t>(1 + seed % 8) / 10, 16_MiB) + 32_MiB;
    expect_no_slower(trace, budget, "seed " + std::to_string(seed));
  }
}

}  // namespace
}  // namespace spillway
