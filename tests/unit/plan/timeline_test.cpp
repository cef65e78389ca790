// When an op waits for what is on the link, by the timeline.
#include "plan/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "liveness/steps.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

// 10 us for a MiB, each way.
constexpr Costs kCard{.out_nanos_per_byte = 10'000.0 / (1 << 20), .in_nanos_per_byte = 10'000.0 / (1 << 20), .out_price = 0, .in_price = 0, .per_copy = 0_us, .per_replay = 0_us};

Prediction with_choices(const Trace& trace, Bytes budget, std::initializer_list<std::pair<Bytes, PlannedGap>> wanted) {
  const Liveness step(trace, *find_steady_step(trace));
  const PlanRequest request{.step = step, .costs = kCard, .budget = budget};
  const Problem problem(request);
  Plan plan;
  for (const auto& [size, how] : wanted) {
    for (const Gap& gap : problem.gaps()) {
      if (problem.size(problem.find(gap)) == size) plan.gaps.push_back({gap, how.remedy, gap.end - how.fetch_at});
    }
  }
  EXPECT_EQ(plan.gaps.size(), wanted.size());
  return predict(request, plan);
}

// `use` wants m, which comes back over the link in 160 us, and d, which is made again in 200.
TEST(Timeline, AnOpWaitsForTheLinkOnlyAfterWhatItWantsHasBeenMadeAgain) {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("m", 16_MiB);
    maker.op("dear", {.in = {"x"}, .out = {"m"}, .takes = 5_ms});
    maker.birth("d", 8_MiB);
    maker.op("cheap", {.in = {"x"}, .out = {"d"}, .takes = 200_us});
    maker.op("wait", {.in = {"x"}, .takes = 1_ms});
    maker.op("use", {.in = {"m", "d"}, .takes = 1_ms});
    maker.death("m");
    maker.death("d");
    maker.end();
  }
  const Prediction found = with_choices(maker.trace(), 100_MiB, {{16_MiB, {.remedy = Remedy::move}}, {8_MiB, {.remedy = Remedy::drop}}});
  EXPECT_EQ(found.stall, 0_ns);
  EXPECT_EQ(found.time, found.plain_time + 200_us);
}

// p leaves over the step's end, 640 us on the link. Plain, the step ends 10 us after its last use; by the plan 2 ms later, since a
// is made again in between. So nobody waits when c wants its room at the next step's beginning.
TEST(Timeline, WhoLeftInTheStepBeforeLeftByAStepThatWentByThePlan) {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  maker.birth("p", 64_MiB, StorageKind::input);
  for (int step = 0; step < 3; ++step) {
    maker.begin();
    maker.birth("c", 80_MiB);
    maker.op("big", {.in = {"x"}, .out = {"c"}, .takes = 10_us});
    maker.death("c");
    maker.birth("a", 16_MiB);
    maker.op("make", {.in = {"x"}, .out = {"a"}, .takes = 2_ms});
    maker.op("use", {.write = {"p"}, .takes = 1_ms, .replayable = false});
    maker.op("end", {.in = {"a"}, .takes = 10_us});
    maker.death("a");
    maker.end();
  }
  const Prediction kept = with_choices(maker.trace(), 100_MiB, {{64_MiB, {.remedy = Remedy::move, .fetch_at = 1}}});
  EXPECT_EQ(kept.stall, 630_us);
  const Prediction again = with_choices(maker.trace(), 100_MiB, {{64_MiB, {.remedy = Remedy::move, .fetch_at = 1}}, {16_MiB, {.remedy = Remedy::drop}}});
  EXPECT_EQ(again.over, 0_B);
  EXPECT_EQ(again.stall, 0_ns);
  EXPECT_EQ(again.time, again.plain_time + 2_ms);
}

}  // namespace
}  // namespace spillway
