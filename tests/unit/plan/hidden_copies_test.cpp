// Copies that have time enough cost what kernels lose beside them, and nothing waits: neither the optimizer nor a rebuild.
#include <gtest/gtest.h>

#include <algorithm>

#include "liveness/curve.h"
#include "liveness/steps.h"
#include "plan/timeline.h"
#include "support/hidden_copies.h"

namespace spillway {
namespace {

constexpr Costs kCard{.out_nanos_per_byte = 1 / 55.0, .in_nanos_per_byte = 1 / 55.0, .out_price = 0.00016, .in_price = 0.00063,
                      .per_copy = 10_us, .per_replay = 4_us};

Nanos price(Bytes moved) { return Nanos{static_cast<std::int64_t>(static_cast<double>(moved.count) * (kCard.out_price + kCard.in_price)) + 1}; }

TEST(HiddenCopies, AdamsMomentsAreAwayThroughForwardAndBackwardAtNoCost) {
  const Trace trace = testing::adam_step();
  const Liveness step(trace, *find_steady_step(trace));
  const Bytes lacking = testing::kState * 3 / 4;
  const Plan plan = plan_hybrid({.step = step, .costs = kCard, .budget = live_curve(step).peak - lacking});
  EXPECT_EQ(plan.predicted.over, 0_B);
  EXPECT_GE(plan.predicted.moved, lacking - 16_MiB);  // what little else there is to leave is weights
  EXPECT_EQ(plan.predicted.stall, 0_ns);
  EXPECT_EQ(plan.predicted.rebuild, 0_ns);
  EXPECT_LE(plan.predicted.time, plan.predicted.plain_time + price(plan.predicted.moved));
  Bytes state;
  for (const PlannedGap& planned : plan.gaps) {
    const LiveStorage& storage = step.storages()[planned.gap.storage];
    if (storage.kind == StorageKind::optimizer_state) state += storage.size;
  }
  EXPECT_GE(state, lacking - 16_MiB);
}

// By gap of the storage with this size.
PlannedGap* find_gap(Plan& plan, const Liveness& step, Bytes size) {
  const auto found = std::ranges::find_if(plan.gaps, [&](const PlannedGap& planned) { return step.storages()[planned.gap.storage].size == size; });
  return found == plan.gaps.end() ? nullptr : &*found;
}

TEST(HiddenCopies, ARebuildFindsWhatItIsMadeOfAtHome) {
  const Trace trace = testing::rebuild_from_moved();
  const Liveness step(trace, *find_steady_step(trace));
  const PlanRequest request{.step = step, .costs = kCard, .budget = 100_MiB};
  Plan plan = plan_hybrid(request);
  PlannedGap* source = find_gap(plan, step, 32_MiB);
  PlannedGap* made = find_gap(plan, step, 64_MiB);
  ASSERT_NE(source, nullptr);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(source->remedy, Remedy::move);
  EXPECT_EQ(made->remedy, Remedy::drop);
  EXPECT_EQ(plan.predicted.over, 0_B);
  EXPECT_EQ(plan.predicted.stall, 0_ns);
  // Fetched in time for its own use only, it would keep the rebuild waiting.
  source->fetch_at = source->gap.end - 1;
  EXPECT_GT(predict(request, plan).stall, 0_ns);
}

}  // namespace
}  // namespace spillway
