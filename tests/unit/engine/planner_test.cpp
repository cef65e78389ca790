// Where the search for a plan begins, and what is told of the first.
#include "engine/planner.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/plan_work.h"
#include "liveness/curve.h"
#include "plan/prices.h"
#include "support/deep_step.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

constexpr Costs kCard{.out_nanos_per_byte = 1 / 55.0, .in_nanos_per_byte = 1 / 55.0, .out_price = 0.00016, .in_price = 0.00063,
                      .per_copy = 8_us, .per_replay = 10_us};
constexpr int kLayers = 40, kManyRounds = 30;

// Layers of many sizes and prices, forward and back: the first plan is not the best.
std::shared_ptr<const RecordedSteps> recorded() {
  testing::StepMaker maker;
  maker.birth("x", 4_MiB, StorageKind::input);
  const auto name = [](int layer) { return layer == 0 ? std::string("x") : "h" + std::to_string(layer); };
  RecordedSteps steps;
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    for (int layer = 1; layer <= kLayers; ++layer) {
      maker.birth(name(layer), Bytes{(8 + layer * 37 % 61) * (std::int64_t{1} << 20)});
      maker.op("forward", {.in = {name(layer - 1)}, .out = {name(layer)}, .takes = Nanos{(20 + layer * 53 % 97) * 10'000}});
    }
    for (int layer = kLayers; layer > 0; --layer) {
      maker.op("back", {.in = {name(layer), name(layer - 1)}, .takes = Nanos{(30 + layer * 29 % 71) * 10'000}});
      maker.death(name(layer));
    }
    maker.end();
  }
  steps.trace = maker.trace();
  for (std::uint64_t op = 0; op < 2 * kLayers; ++op) steps.keys.push_back(op), steps.shapes.push_back(op);
  return std::make_shared<const RecordedSteps>(std::move(steps));
}

class SearchFromTest : public ::testing::Test {
 protected:
  std::shared_ptr<const RecordedSteps> steps = recorded();
  Bytes peak = live_curve(Liveness(steps->trace, *find_step(steps->trace, StepRecorder::kStep))).peak;
  Planner planner;

  [[nodiscard]] PlanTask task(SearchFrom from, bool quick, bool at_once = true) const {
    return {.steps = steps, .foreseen = nullptr, .costs = kCard, .budget = peak * 40 / 100, .ground = {}, .policy = find_plan_policy("hybrid"),
            .rounds = kManyRounds, .quick = quick, .from = from, .at_once = at_once};
  }

  Nanos plan(SearchFrom from, bool quick) {
    planner.start(task(from, quick));
    const auto script = planner.take();
    EXPECT_NE(script, nullptr);
    return script ? script->predicted().time : 0_ns;
  }
};

TEST_F(SearchFromTest, NothingForgetsTheChoicesMade) {
  const Nanos first = plan(SearchFrom::nothing, /*quick=*/true);
  const Nanos best = plan(SearchFrom::nothing, /*quick=*/false);

  EXPECT_LT(best, first);
  EXPECT_EQ(plan(SearchFrom::nothing, /*quick=*/true), first);
}

TEST_F(SearchFromTest, ChoicesAreWhereItGoesOn) {
  const Nanos best = plan(SearchFrom::nothing, /*quick=*/false);

  EXPECT_LE(plan(SearchFrom::choices, /*quick=*/true), best);
  EXPECT_LE(plan(SearchFrom::choices, /*quick=*/false), best);
}

TEST_F(SearchFromTest, EverywhereIsNoWorseThanTheChoicesMade) {
  const Nanos best = plan(SearchFrom::nothing, /*quick=*/false);

  EXPECT_LE(plan(SearchFrom::everywhere, /*quick=*/false), best);
}

TEST_F(SearchFromTest, TheFirstPlanIsByPricesAndToldBesideTheBest) {
  EXPECT_FALSE(planner.first().has_value());
  const Liveness step(steps->trace, *find_step(steps->trace, StepRecorder::kStep));
  const Nanos first = plan_by_price({.step = step, .costs = kCard, .budget = peak * 40 / 100}).predicted.time;

  const Nanos best = plan(SearchFrom::nothing, /*quick=*/false);
  ASSERT_TRUE(planner.first().has_value());
  EXPECT_EQ(planner.first()->predicted.time, first);
  EXPECT_GT(planner.first()->predicted.time, best);

  (void)plan(SearchFrom::choices, /*quick=*/true);
  EXPECT_EQ(planner.first()->predicted.time, first);  // of the same step
}

// Places take a hundred times as long to find as a plan.
TEST_F(SearchFromTest, WherePricesFindNothingThatFitsTheFirstPlanIsThereBeforeItsPlaces) {
  const Liveness step(steps->trace, *find_step(steps->trace, StepRecorder::kStep));
  PlanTask tight = task(SearchFrom::nothing, /*quick=*/false);
  const auto lacks = [&](auto plan) { return plan({.step = step, .costs = kCard, .budget = tight.budget}).predicted.over > 0_B; };
  while (tight.budget > peak / 10 && !(lacks(plan_by_price) && !lacks([](const PlanRequest& request) { return plan_hybrid(request); }))) tight.budget -= peak / 200;
  ASSERT_GT(tight.budget, peak / 10);
  tight.ground = {.from = 2_MiB, .limit = peak};
  tight.rounds = 1;

  Plan plan;
  std::vector<std::shared_ptr<Script>> told;
  PlanWork(tight, step, plan, {.is_stale = [] { return false; }, .is_untaken = [] { return false; }, .publish = [&](auto script) { told.push_back(std::move(script)); }}).run();

  ASSERT_GE(told.size(), 2u);
  EXPECT_EQ(told.front()->places(), nullptr);
  EXPECT_EQ(told.front()->predicted().over, 0_B);
  EXPECT_NE(told.back()->places(), nullptr);
}

// Whatever the machine: an execution of so many ops takes the timeline a few milliseconds, and no places are looked for.
TEST(FirstPlan, OfFiveThousandOpsIsThereAfterAFewExecutionsByTheTimeline) {
  constexpr int kFew = 12;
  RecordedSteps deep;
  deep.trace = make_deep_step(5000);
  const Liveness step(deep.trace, *find_step(deep.trace, StepRecorder::kStep));
  for (std::uint64_t op = 0; op < step.op_count(); ++op) deep.keys.push_back(op), deep.shapes.push_back(op);
  const auto steps = std::make_shared<const RecordedSteps>(std::move(deep));
  for (const int percent : {80, 60, 45}) {
    const Bytes limit = live_curve(step).peak * percent / 100;
    std::shared_ptr<Script> first;
    Plan plan;
    const PlanTask task{.steps = steps, .foreseen = nullptr, .costs = kCard, .budget = limit * 98 / 100, .ground = {.from = 2_MiB, .limit = limit}, .policy = find_plan_policy("hybrid")};
    const auto publish = [&](auto script) { first = first ? first : std::move(script); };
    PlanWork(task, step, plan, {.is_stale = [&] { return first != nullptr; }, .is_untaken = [] { return false; }, .publish = publish}).run();

    ASSERT_NE(first, nullptr) << percent;
    EXPECT_GE(step.op_count(), 5000u);
    EXPECT_GT(first->gap_count(), 0u) << percent;
    EXPECT_EQ(first->predicted().over, 0_B) << percent;
    EXPECT_EQ(first->places(), nullptr) << percent;
    EXPECT_LE(first->plan().judged, kFew) << percent;
    EXPECT_GE(plan.judged, first->plan().judged) << percent;  // what comes after it takes longer
  }
}

TEST_F(SearchFromTest, APlanMadeBesideTrainingSaysHowLongThatTook) {
  planner.start(task(SearchFrom::nothing, /*quick=*/true, /*at_once=*/false));
  planner.wait();
  const auto script = planner.take();

  ASSERT_NE(script, nullptr);
  EXPECT_GT(script->took(), 0_ns);
  EXPECT_EQ(planner.first()->took, script->took());
}

TEST_F(SearchFromTest, TheFirstIsToldEvenIfAnotherTaskForTheStepOvertakesIt) {
  planner.start(task(SearchFrom::nothing, /*quick=*/true, /*at_once=*/false));
  planner.start(task(SearchFrom::choices, /*quick=*/true, /*at_once=*/false));
  planner.wait();

  EXPECT_TRUE(planner.first().has_value());
}

// A simulated run is the same every time, and so is its trace.
TEST_F(SearchFromTest, APlanMadeAtOnceTellsNoTime) {
  planner.start(task(SearchFrom::nothing, /*quick=*/true));
  EXPECT_EQ(planner.take()->took(), 0_ns);
}

}  // namespace
}  // namespace spillway
