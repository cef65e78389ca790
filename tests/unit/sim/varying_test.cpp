// Steps of changing size, as the engine runs them on the simulated card.
#include <gtest/gtest.h>

#include "plan/policies.h"
#include "unit/sim/varying_run.h"

namespace spillway {
namespace {

using testing::VaryingRun;

// Of what three hundred take half has to leave, and of two hundred a little.
Bytes room_for_two_hundred() { return VaryingRun::peak_of(200) * 95 / 100; }

TEST(VaryingRun, AStepLargerThanAnyPlannedForGoesByThePlanOfAnotherAndItsReserve) {
  VaryingRun run(room_for_two_hundred());
  run.learn({100, 200, 150, 180});
  ASSERT_EQ(run.play(200).planned_steps, 1);

  const EngineStats larger = run.play(300);

  EXPECT_EQ(larger.foreseen_steps, 1);
  EXPECT_EQ(larger.reused_plans, 1);
  EXPECT_EQ(larger.extended_plans, 1);
  EXPECT_EQ(larger.planned_steps, 1);
  EXPECT_EQ(larger.surprises, 0);  // nobody had to leave beside plan and reserve
  EXPECT_EQ(larger.violations, 0);
  EXPECT_LE(larger.peak_reserved, room_for_two_hundred());
  EXPECT_FALSE(run.player().unfit());
}

// All sizes that are known have room, so nothing leaves in their steps.
TEST(VaryingRun, TheFirstStepThatHasNoRoomGoesByTheReserveOfOneThatHad) {
  const Bytes budget = VaryingRun::peak_of(210);
  VaryingRun run(budget);
  (void)run.play(230);  // somebody had to leave once: sizes are learnt
  run.learn({100, 200, 150, 180});
  ASSERT_EQ(run.play(200).evictions, 0);

  const EngineStats larger = run.play(300);

  EXPECT_EQ(larger.extended_plans, 1);
  EXPECT_EQ(larger.planned_steps, 1);
  EXPECT_EQ(larger.surprises, 0);
  EXPECT_LE(larger.peak_reserved, budget);
  EXPECT_FALSE(run.player().unfit());
}

// A planner that takes its time, on the calling thread.
FakeDevice* host = nullptr;
int plans_made = 0;
constexpr Nanos kPlanTakes = 7_ms;

Plan plan_slowly(const PlanRequest& request, const Plan& from) {
  ++plans_made;
  host->advance(kPlanTakes);
  return find_plan_policy("hybrid")->plan(request, from);
}

class PlanningTold : public ::testing::Test {
 protected:
  static constexpr PlanPolicy kSlow{.name = "hybrid", .plan = plan_slowly, .improves = false};

  static EngineOptions options() {
    EngineOptions options = engine_options(VaryingRun::sim_options(room_for_two_hundred()));
    options.plans = &kSlow;
    return options;
  }

  PlanningTold() { host = &run.device(), plans_made = 0; }

  // Kernels take a hundred times as long, and the host nothing else.
  void expect_all_told() {
    EXPECT_GT(plans_made, 0);
    EXPECT_EQ(run.stats().planning, kPlanTakes * plans_made);
  }

  VaryingRun run{options()};
};

TEST_F(PlanningTold, WhatThePlannerTakesAtAStepsEndIsInIt) {
  for (int i = 0; i < 8; ++i) (void)run.play(200);
  EXPECT_GT(run.stats().planned_steps, 0);
  expect_all_told();
}

TEST_F(PlanningTold, SoIsWhatItTakesWhereSizesChange) {
  run.learn({100, 200, 150, 180});
  EXPECT_GT(run.stats().varying_steps, 0);
  expect_all_told();
}

TEST_F(PlanningTold, SoIsWhatItTakesForAnotherBudget) {
  for (int i = 0; i < 8; ++i) (void)run.play(200);
  const int before = plans_made;
  run.engine().set_budget(room_for_two_hundred() * 97 / 100);
  EXPECT_GT(plans_made, before);
  expect_all_told();
}

// The link has a tenth of its pace: where sizes change nobody plans for one step, but for those to come.
TEST(VaryingRun, ALinkThatBecomesSlowerIsPlannedForWhereSizesChange) {
  VaryingRun run(VaryingRun::peak_of(200) * 60 / 100);
  run.learn({100, 200, 150, 180}, 40);  // until no plan is made better any more
  const double before = run.engine().options().costs.in_nanos_per_byte;
  const Bytes moved = run.play(200).moved_out;

  run.device().set_link_percent(10);
  run.learn({200, 180}, 30);
  const Bytes moved_now = run.play(200).moved_out;

  EXPECT_NEAR(run.engine().options().costs.in_nanos_per_byte, 10 * before, before);
  EXPECT_LT(moved_now, moved);  // plans that leave more to rebuilds
  EXPECT_EQ(run.stats().violations, 0);
}

}  // namespace
}  // namespace spillway
