#include "plan/chosen.h"

#include <gtest/gtest.h>

#include "liveness/curve.h"
#include "support/chain_step.h"

namespace spillway {
namespace {

constexpr Costs kCard{.out_nanos_per_byte = 1 / 55.0, .in_nanos_per_byte = 1 / 55.0, .out_price = 0.00016, .in_price = 0.00063, .per_copy = 8_us, .per_replay = 10_us};

class PlanAsChosenTest : public ::testing::Test {
 protected:
  const Trace trace = testing::chain_step();
  const Liveness step{trace, *find_step(trace, StepIndex{1})};
  const PlanRequest request{.step = step, .costs = kCard, .budget = live_curve(step).peak * 90 / 100};
  const Plan plan = plan_hybrid(request);
};

TEST_F(PlanAsChosenTest, IsThePlanThatMadeTheChoices) {
  ASSERT_FALSE(plan.gaps.empty());
  const auto again = plan_as_chosen(request, plan.gaps);

  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->gaps, plan.gaps);
  EXPECT_EQ(again->holds, plan.holds);
  EXPECT_EQ(again->predicted.time, plan.predicted.time);
  EXPECT_EQ(again->predicted.peak, plan.predicted.peak);
}

TEST_F(PlanAsChosenTest, WithoutChoicesKeepsAll) {
  const auto none = plan_as_chosen(request, {});
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->predicted.peak, live_curve(step).peak);
}

TEST_F(PlanAsChosenTest, IsNoneForWhatTheStepDoesNotLeaveOpen) {
  ASSERT_FALSE(plan.gaps.empty());
  const auto refuses = [&](auto change) {
    std::vector<PlannedGap> chosen = plan.gaps;
    change(chosen);
    EXPECT_FALSE(plan_as_chosen(request, chosen).has_value());
  };
  refuses([](auto& chosen) { chosen[0].gap.storage = kNoPlace; });
  refuses([](auto& chosen) { ++chosen[0].gap.end; });
  refuses([](auto& chosen) { chosen[0].fetch_at = chosen[0].gap.begin - 1; });
  refuses([](auto& chosen) { chosen[0].fetch_at = chosen[0].gap.end + 1; });
  refuses([](auto& chosen) { chosen[0].remedy = Remedy::keep; });
  refuses([](auto& chosen) { chosen.push_back(chosen[0]); });
}

// x is there before the step: nothing of it makes x again.
TEST_F(PlanAsChosenTest, DropsNobodyWhoCannotBeMadeAgain) {
  for (const Gap& gap : find_gaps(step)) {
    if (!step.storages()[gap.storage].wraps()) continue;
    EXPECT_FALSE(plan_as_chosen(request, std::vector{PlannedGap{gap, Remedy::drop, gap.end}}).has_value());
  }
}

}  // namespace
}  // namespace spillway
