#include "sim/simulate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "engine/layout.h"
#include "liveness/curve.h"
#include "liveness/floor.h"
#include "plan/blocks.h"
#include "sim/card_times.h"
#include "support/chain_step.h"
#include "support/gradient_step.h"
#include "support/step_maker.h"
#include "trace/check.h"
#include "trace/reader.h"
#include "unit/sim/sim_card.h"

namespace spillway {
namespace {

using testing::quick_card;
using testing::recorded;
using testing::StepMaker;

bool operator==(const SimStep& a, const SimStep& b) {
  return a.time == b.time && a.fetch == b.fetch && a.room == b.room && a.moved_out == b.moved_out && a.moved_in == b.moved_in &&
         a.dropped == b.dropped && a.rebuilt == b.rebuilt && a.evictions == b.evictions && a.predicted.time == b.predicted.time;
}

class Simulate : public ::testing::TestWithParam<const char*> {
 protected:
  Trace trace = recorded(GetParam());
  Liveness step{trace, *find_steady_step(trace)};
  LiveCurve curve = live_curve(step);

  [[nodiscard]] SimOptions options(int percent, const char* policy) const {
    return {.card = quick_card(), .budget = curve.peak * percent / 100, .policy = policy, .steps = 5};
  }
};

TEST_P(Simulate, WithoutABudgetTheStepIsThePlainOne) {
  SimOptions watch = options(100, "dtr");
  watch.budget.reset();
  const SimResult result = simulate(trace, watch);
  ASSERT_EQ(result.steps.size(), 5u);
  for (const SimStep& step : result.steps) {
    EXPECT_EQ(step.time, result.plain_time);
    EXPECT_EQ(step.evictions, 0);
  }
  // Blocks are in multiples of 512 bytes.
  EXPECT_GE(result.stats.peak_live, curve.peak);
  EXPECT_LE(result.stats.peak_live, curve.peak + 512_B * step.storage_count());
}

TEST_P(Simulate, EveryPolicyHoldsTheBudgetAtEveryInstant) {
  for (const char* policy : {"hybrid", "dtr", "lru"}) {
    const SimResult result = simulate(trace, options(60, policy));
    EXPECT_FALSE(result.unfit.has_value()) << policy;
    EXPECT_EQ(result.stats.violations, 0) << policy;
    EXPECT_LE(result.stats.peak_reserved, *options(60, policy).budget) << policy;
    EXPECT_GT(result.stats.evictions, 0) << policy;
  }
}

TEST_P(Simulate, TheSameRunComesOutTheSame) {
  const SimResult one = simulate(trace, options(60, "hybrid")), other = simulate(trace, options(60, "hybrid"));
  ASSERT_EQ(one.steps.size(), other.steps.size());
  for (std::size_t i = 0; i < one.steps.size(); ++i) EXPECT_TRUE(one.steps[i] == other.steps[i]) << i;
}

TEST_P(Simulate, HybridFollowsAPlanFromTheFourthStepOn) {
  const SimResult result = simulate(trace, options(60, "hybrid"));
  ASSERT_EQ(result.steps.size(), 5u);
  EXPECT_FALSE(result.steps[2].planned);
  EXPECT_TRUE(result.steps[3].planned);
  EXPECT_GT(result.steps[3].predicted.time, result.plain_time);
}

TEST_P(Simulate, ABudgetBelowTheFloorIsToldWithItsOp) {
  SimOptions small = options(100, "dtr");
  const Floor floor = find_floor(step);
  small.budget = floor.bytes * 9 / 10;
  const SimResult result = simulate(trace, small);
  ASSERT_TRUE(result.unfit.has_value());
  EXPECT_GT(result.unfit->lacks, 0_B);
  EXPECT_EQ(result.stats.violations, 0);
}

TEST_P(Simulate, TheTimesOfAStepAddUp) {
  for (const SimStep& step : simulate(trace, options(43, "dtr")).steps) {
    EXPECT_EQ(step.kernels, simulate(trace, options(100, "dtr")).plain_time);
    EXPECT_EQ(step.time, step.kernels + step.rebuilds + step.fetch + step.room + step.beside_copies + step.host);
  }
}

INSTANTIATE_TEST_SUITE_P(Traces, Simulate, ::testing::Values("resnet50_b256", "vgg16_b128"));

// From the forward just seen the backward is foretold, so whoever is away is on its way before it is wanted.
TEST(FirstSteps, AreHardlySlowerThanReactionAloneAndWaitLessForTheLink) {
  const auto first_step = [](const char* name, const char* policy) {
    const Trace trace = recorded(name);
    const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
    const SimResult result = simulate(trace, {.card = quick_card(), .budget = peak * 45 / 100, .policy = policy, .steps = 1});
    EXPECT_EQ(result.stats.violations, 0) << name;
    return result.steps.at(0);
  };
  for (const char* name : {"gpt2m_16x1024", "vgg16_b128", "resnet50_b256"}) {
    const Nanos reaction = first_step(name, "dtr").time;
    EXPECT_LE(first_step(name, "hybrid").time, reaction + reaction / 50) << name;  // copies made ahead in vain cost a little
  }
  EXPECT_LT(first_step("gpt2m_16x1024", "hybrid").fetch, first_step("gpt2m_16x1024", "dtr").fetch / 4);
}

// x is read by the first op and by the last, y only in the middle; 10 MiB each, and both do not fit beside z.
Trace two_uses() {
  StepMaker maker;
  for (const char* name : {"x", "y"}) maker.birth(name, 10_MiB, StorageKind::parameter);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.op("first", {.in = {"x"}, .takes = 10_ms});
    maker.birth("z", 10_MiB);
    maker.op("middle", {.in = {"y"}, .out = {"z"}, .takes = 10_ms});
    maker.op("last", {.in = {"x", "z"}, .takes = 10_ms});
    maker.death("z");
    maker.end();
  }
  return maker.trace();
}

Card card_with_a_plain_link() {
  Card card = quick_card();
  card.out = card.in = card.out_both = card.in_both = {1'048'576'000};  // 1000 MiB/s: 10 ms for 10 MiB
  card.copy_latency = 0_ns;
  card.slower_beside_out = card.slower_beside_in = card.slower_beside_both = {};
  return card;
}

TEST(SimulateByHand, WhatDoesNotFitLeavesAndComesBackOverTheLink) {
  const SimResult result = simulate(two_uses(), {.card = card_with_a_plain_link(), .budget = 20_MiB, .policy = "lru", .steps = 4});
  ASSERT_EQ(result.steps.size(), 4u);
  const SimStep& steady = result.steps.back();
  // Parameters come home unchanged: their copies below stay good, so they leave free from the second step on.
  EXPECT_EQ(steady.moved_out, 0_B);
  EXPECT_EQ(steady.moved_in, 20_MiB);
  EXPECT_EQ(steady.left_clean, 20_MiB);
  // y comes back beside the first op, where z's place is free; x has to wait for y's place.
  EXPECT_EQ(steady.fetch, 10_ms);
  EXPECT_EQ(steady.time, 40_ms);
}

TEST(SimulateByHand, WhatNobodyWritesLeavesFreeByAPlanAsWell) {
  const SimResult result = simulate(two_uses(), {.card = card_with_a_plain_link(), .budget = 22_MiB, .policy = "hybrid", .steps = 6});
  ASSERT_EQ(result.steps.size(), 6u);
  const SimStep& steady = result.steps.back();
  EXPECT_TRUE(steady.planned);
  EXPECT_EQ(steady.moved_out, 0_B);
  EXPECT_EQ(steady.left_clean, steady.moved_in);
  EXPECT_EQ(steady.predicted.moved, 0_B);
  EXPECT_EQ(steady.predicted.time, steady.time);
  // Who is away when a run takes to a plan comes back by it, in its first step already.
  for (const SimStep& step : result.steps) EXPECT_EQ(step.surprises, 0);
}

// A gradient is read for the last time and lives on until the next step begins; no plan lets such a one go, and beside it there
// is no room for the op after.
//
//   op           make   read   large  last
//   parameter     r      .      .      r     10 MiB
//   gradient      w      r      <------->    10 MiB
//   large                      w             15 MiB, budget 22
Trace gradient_lives_on() {
  StepMaker maker;
  maker.birth("parameter", 10_MiB, StorageKind::parameter);
  for (int step = 0; step < 3; ++step) {
    maker.begin();
    if (step > 0) maker.death("gradient");
    maker.birth("gradient", 10_MiB);
    maker.op("make", {.in = {"parameter"}, .out = {"gradient"}, .takes = 10_ms, .replayable = false});
    maker.op("read", {.in = {"gradient"}, .takes = 10_ms});
    maker.birth("large", 15_MiB);
    maker.op("large", {.out = {"large"}, .takes = 10_ms});
    maker.death("large");
    maker.op("last", {.write = {"parameter"}, .takes = 10_ms});
    maker.end();
  }
  return maker.trace();
}

TEST(SimulateByHand, APlanThatLacksMemoryIsNotMadeForEvenLess) {
  const SimResult result = simulate(gradient_lives_on(), {.card = card_with_a_plain_link(), .budget = 22_MiB, .policy = "hybrid", .steps = 12});
  ASSERT_EQ(result.steps.size(), 12u);
  EXPECT_EQ(result.stats.violations, 0);
  const SimStep& last = result.steps.back();
  ASSERT_TRUE(last.planned);
  EXPECT_GT(last.surprises, 0);
  EXPECT_GT(last.predicted.over, 3_MiB);
  const auto first = std::ranges::find_if(result.steps, &SimStep::planned);
  EXPECT_EQ(last.predicted.over, first->predicted.over);
}

TEST(SimulateByHand, WhoIsRebuiltForAnotherLeavesAgain) {
  const SimResult result = simulate(testing::chain_step(), {.card = quick_card(), .budget = 88_MiB, .policy = "hybrid", .steps = 8, .places = false});
  const SimStep& last = result.steps.back();
  EXPECT_TRUE(last.planned);
  EXPECT_EQ(last.surprises, 0);
  EXPECT_EQ(last.peak_live, last.predicted.peak_home);
  EXPECT_EQ(last.rebuilt, 96_MiB);
  EXPECT_EQ(last.moved_out, 0_B);
}

TEST(SimulateByHand, WhatALargeOneIsMadeOfStaysBeyondItsDeath) {
  const SimResult result = simulate(testing::gradient_step(), {.card = quick_card(), .budget = 88_MiB, .policy = "hybrid", .steps = 8, .places = false});
  const SimStep& last = result.steps.back();
  EXPECT_TRUE(last.planned);
  EXPECT_EQ(last.surprises, 0);
  EXPECT_EQ(last.peak_live, last.predicted.peak_home);
  EXPECT_EQ(last.rebuilt, last.predicted.rebuilt);
  EXPECT_EQ(last.moved_out, 0_B);
}

TEST(SimulateByHand, ASlowerLinkShowsFromTheStepOnInWhichItSlows) {
  SimOptions options{.card = quick_card(), .budget = 20_MiB, .policy = "lru", .steps = 4};
  options.before_step = [](int step, FakeDevice& device) {
    if (step == 3) device.set_link_percent(50);
  };
  const SimResult result = simulate(two_uses(), options);
  EXPECT_NEAR(static_cast<double>(result.steps[3].fetch.count), 2.0 * static_cast<double>(result.steps[2].fetch.count), 10'000);
}

// By cause, in the whole run: what the engine tells, what the trace holds, and what the card's own clock shows.
struct Waited {
  Nanos fetch, room;
  explicit Waited(const EngineStats& stats) : fetch(stats.stalls.fetch), room(stats.stalls.room) {}
  explicit Waited(const std::vector<SimStep>& steps) {
    for (const SimStep& step : steps) fetch += step.fetch, room += step.room;
  }
  explicit Waited(const Trace& trace) {
    for (const Event& event : trace.events) {
      const auto* stall = std::get_if<Stall>(&event);
      if (stall != nullptr && stall->cause == StallCause::fetch) fetch += stall->duration;
      if (stall != nullptr && stall->cause == StallCause::room) room += stall->duration;
    }
  }
};

Trace simulated_trace(const Trace& trace, SimOptions options, SimResult& result) {
  options.trace = ::testing::TempDir() + "stalls_" + std::to_string(::getpid()) + ".spt";
  result = simulate(trace, options);
  Trace written = read_trace(options.trace);
  std::filesystem::remove(options.trace);
  EXPECT_TRUE(check_trace(written, 1).empty());
  return written;
}

// From the second step on: first, middle, then x comes, for 10 ms, and last.
TEST(SimulateStalls, AWayBackThatMustBeWaitedForIsToldWithItsOpAndItsTime) {
  SimResult result;
  const Trace trace = simulated_trace(two_uses(), {.card = card_with_a_plain_link(), .budget = 20_MiB, .policy = "lru", .steps = 4}, result);
  std::vector<Stall> stalls;
  for (const Event& event : trace.events) {
    if (const auto* step = std::get_if<StepBegin>(&event); step != nullptr && step->step == StepIndex{3}) stalls.clear();
    if (const auto* stall = std::get_if<Stall>(&event)) stalls.push_back(*stall);
  }
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(stalls[0].cause, StallCause::fetch);
  EXPECT_EQ(stalls[0].duration, 10_ms);
  EXPECT_EQ(stalls[0].start, result.steps[0].time + result.steps[1].time + result.steps[2].time + 20_ms);
  EXPECT_EQ(stalls[0].op, OpIndex{3 * 3 + 2});
}

// x leaves after its op, for z, and is on its way for 10 ms in which the card has nothing to do.
TEST(SimulateStalls, APlaceThatIsNotLeftYetIsToldAsRoom) {
  SimResult result;
  const Trace trace = simulated_trace(two_uses(), {.card = card_with_a_plain_link(), .budget = 20_MiB, .policy = "lru", .steps = 4}, result);
  EXPECT_EQ(result.steps[0].room, 10_ms);
  EXPECT_EQ(Waited(result.steps).room, Waited(result.stats).room);
  EXPECT_EQ(Waited(result.steps).room, Waited(trace).room);
}

// Room is left out: the host waits for some of it while the card works.
TEST_P(Simulate, WhatTheEngineTellsOfWaitingIsWhatTheCardWaited) {
  for (const auto& [policy, percent] : {std::pair("hybrid", 43), {"lru", 60}}) {
    SimResult result;
    const Trace written = simulated_trace(trace, options(percent, policy), result);
    const Waited told(result.stats), drawn(written), seen(result.steps);
    EXPECT_GT(seen.fetch, 100_us) << policy;
    EXPECT_NEAR(static_cast<double>(told.fetch.count), static_cast<double>(seen.fetch.count), 50'000) << policy;  // moments are no stalls
    EXPECT_EQ(drawn.fetch, told.fetch) << policy;
  }
}

// The link halves at step 5: from then on copies planned for the whole link are late, until a plan for the half is made.
TEST(SimulateDrift, StallsOfALinkThatHalvesAreGoneThreeStepsLater) {
  const Trace trace = recorded("resnet50_b256");
  const Liveness step(trace, *find_steady_step(trace));
  SimOptions options{.card = quick_card(), .budget = live_curve(step).peak * 70 / 100, .policy = "hybrid", .steps = 10};
  options.before_step = [](int step, FakeDevice& device) {
    if (step == 5) device.set_link_percent(50);
  };
  const SimResult result = simulate(trace, options);
  ASSERT_EQ(result.steps.size(), 10u);
  const auto stall = [&](std::size_t i) { return result.steps[i].fetch + result.steps[i].room; };
  EXPECT_LT(stall(4) * 10, stall(5));
  EXPECT_GT(stall(5), 1_ms);
  EXPECT_LT(stall(8) * 10, stall(5));
}

// The link slows by an eighth, which is too little for another plan: ways back are late, and begin earlier some steps later. With
// places there is nothing to gain: each begins as soon as its place is free.
TEST(SimulateDrift, WaysBackThatAreALittleLateBeginEarlier) {
  const Trace trace = recorded("gpt2m_16x1024");
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  SimOptions options{.card = quick_card(), .budget = peak * 80 / 100, .policy = "hybrid", .steps = 20, .places = false};
  options.before_step = [](int step, FakeDevice& device) {
    if (step == 12) device.set_link_percent(87);
  };
  const SimResult result = simulate(trace, options);
  ASSERT_EQ(result.steps.size(), 20u);
  const auto stall = [&](std::size_t i) { return result.steps[i].fetch; };
  EXPECT_LT(stall(11), 100_us);
  EXPECT_GT(stall(12), 5_ms);
  for (std::size_t step = 16; step < 20; ++step) {
    EXPECT_LT(stall(step) * 10, stall(12)) << step;
    EXPECT_LT(result.steps[step].time, result.steps[12].time) << step;
    EXPECT_EQ(result.steps[step].predicted.time, result.steps[11].predicted.time) << "by the same plan";
    EXPECT_EQ(result.steps[step].surprises, 0) << step;
  }
}

// What does not help is taken back, and the steps are as they were; what helps a little stays. Either way it comes to rest.
TEST(SimulateDrift, WhatIsTriedAgainstWaysBackThatAreLateIsNotTriedForEver) {
  const Trace trace = recorded("vit_b_16_b256");
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  int taken_back = 0;
  for (const int share : {45, 50, 55, 65}) {
    SimOptions options{.card = quick_card(), .budget = peak * share / 100, .policy = "hybrid", .steps = 20};
    options.before_step = [](int step, FakeDevice& device) {
      if (step == 12) device.set_link_percent(87);
    };
    const SimResult result = simulate(trace, options);
    ASSERT_EQ(result.steps.size(), 20u);
    const bool tried = result.steps[14].fetch != result.steps[12].fetch;
    taken_back += tried && result.steps[16].time == result.steps[12].time ? 1 : 0;
    for (std::size_t step = 16; step < 20; ++step) {
      EXPECT_LE(result.steps[step].time, result.steps[12].time + result.steps[12].time / 500) << share << " " << step;  // in which the link was not slow from the start
      EXPECT_EQ(result.steps[step].time, result.steps[16].time) << share << " " << step;
    }
  }
  EXPECT_GT(taken_back, 0);
}

// A plan that lacks memory promises nothing: its steps turn out longer than those without it, and the run goes on without.
TEST(SimulateDoubt, APlanThatIsSlowerThanNoneIsGivenUp) {
  const Trace trace = recorded("vgg16_b128");
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  const SimResult result = simulate(trace, {.card = quick_card(), .budget = peak * 46 / 100, .policy = "tensile", .steps = 30});
  ASSERT_EQ(result.steps.size(), 30u);
  Nanos by_plan, without;
  int planned = 0;
  for (std::size_t step = 3; step < result.steps.size(); ++step) {
    planned += result.steps[step].planned ? 1 : 0;
    if (result.steps[step].planned) by_plan += result.steps[step].time;
    else without += result.steps[step].time;
  }
  EXPECT_GT(planned, 3);
  EXPECT_LT(planned, 15);
  EXPECT_FALSE(result.steps.back().planned);
  EXPECT_LT(without / (27 - planned), by_plan / planned);
}

// One that fits and keeps its promise is never left for that.
TEST(SimulateDoubt, AGoodPlanIsFollowedWithoutABreak) {
  const Trace trace = recorded("resnet50_b256");
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  const SimResult result = simulate(trace, {.card = quick_card(), .budget = peak * 80 / 100, .policy = "hybrid", .steps = 30});
  ASSERT_EQ(result.steps.size(), 30u);
  for (std::size_t step = 5; step < result.steps.size(); ++step) EXPECT_TRUE(result.steps[step].planned) << step;
}

// What is not placed needs more than was thought at first: until plans leave it that much, memory goes to and fro in every step.
TEST(SimulatePlaces, NoMemoryIsPutTogetherOnceARunHasSettled) {
  const Trace trace = recorded("resnet50_b16_fp32");
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  const SimResult result = simulate(trace, {.card = quick_card(), .budget = peak * 35 / 100, .policy = "hybrid", .steps = 24});
  ASSERT_EQ(result.steps.size(), 24u);
  for (std::size_t step = 20; step < result.steps.size(); ++step) {
    EXPECT_TRUE(result.steps[step].planned);
    EXPECT_EQ(result.steps[step].remaps, 0);
  }
}

// Blocks whose lifetimes are known lie so close that all of them reach hardly higher than what is there at once.
TEST(SimulatePlaces, ReachHardlyHigherThanThePlannedPeak) {
  const std::string path = ::testing::TempDir() + "steps_" + std::to_string(::getpid()) + ".spt";
  for (const char* name : {"resnet50_b256", "vgg16_b128", "gpt2m_16x1024"}) {
    (void)simulate(recorded(name), {.card = quick_card(), .budget = {}, .steps = 3, .trace = path});  // steps that go on in each other
    const Trace trace = read_trace(path);
    const Liveness step(trace, *find_steady_step(trace));
    for (const int share : {80, 60, 45}) {
      const PlanRequest request{.step = step, .costs = costs_of(quick_card()), .budget = live_curve(step).peak * share / 100};
      const Plan plan = plan_hybrid(request);
      const BlockList list = list_blocks(request, plan, Layout::kSmallest);
      const Places places = find_places(list, step.op_count(), {.from = 2_MiB, .limit = request.budget});
      const Bytes reached = places.top + list.elsewhere + list.small;
      EXPECT_LE(reached.count, plan.predicted.peak.count * 102 / 100) << name << " " << share << " %";
      EXPECT_GT(list.blocks.size(), 50u);
    }
  }
  std::filesystem::remove(path);
}

// A storage that was moved in one gap and is dropped in the next has a copy below. Left to that copy it came back over the link,
// unplanned, and what was to be rebuilt with it had no place.
TEST(SimulatePlaces, WhatAPlanDropsIsRebuiltWhateverLiesBelow) {
  const Trace trace = recorded("resnet50_b256");
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  const SimResult result = simulate(trace, {.card = quick_card(), .budget = peak * 27 / 100, .policy = "hybrid", .steps = 8});
  ASSERT_EQ(result.steps.size(), 8u);
  const SimStep& last = result.steps.back();
  EXPECT_TRUE(last.planned);
  EXPECT_EQ(last.remaps, 0);
  EXPECT_LE(last.time.count, last.predicted.time.count + last.predicted.time.count / 100);
}

// Whoever leaves by the plan is in the trace with what was decided for it and why.
TEST(SimulateTrace, TellsWhatThePlanDecidedForEachStorageAndWhy) {
  const std::string path = ::testing::TempDir() + "decisions_" + std::to_string(::getpid()) + ".spt";
  const Trace plain = recorded("vgg16_b128");
  const Bytes peak = live_curve(Liveness(plain, *find_steady_step(plain))).peak;
  const SimResult result = simulate(plain, {.card = quick_card(), .budget = peak * 60 / 100, .policy = "hybrid", .steps = 6, .trace = path});
  const Trace trace = read_trace(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(check_trace(trace, 1).empty());
  ASSERT_TRUE(result.steps.back().planned);
  EXPECT_EQ(result.steps.back().surprises, 0);
  std::map<StorageId, Action> decided;
  StepIndex step;
  int left = 0;
  for (const Event& event : trace.events) {
    if (const auto* begin = std::get_if<StepBegin>(&event)) step = begin->step;
    if (step != StepIndex{5}) continue;
    if (const auto* decision = std::get_if<Decision>(&event)) {
      decided[decision->storage] = decision->action;
      EXPECT_TRUE(decision->planned);
      EXPECT_LT(decision->at.index, decision->until.index);
      EXPECT_TRUE(trace.names.at(decision->reason.index).starts_with("idle for "));
    }
    const auto* move = std::get_if<Move>(&event);
    if (move == nullptr || move->from != TraceTier::device) continue;
    ++left;
    decided.try_emplace(move->storage, Action::keep);
  }
  EXPECT_GT(left, 0);
  EXPECT_EQ(std::ranges::count(decided, Action::keep, [](const auto& one) { return one.second; }), 0);
}

// The first steps of a run on a card: the host is late, and what the clock shows of an op holds some of that.
TEST(SimulateRetiming, TimesThatWereMeasuredTooLongAreMeasuredAgainInAPlannedStep) {
  const Trace trace = recorded("vgg16_b128");
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  const SimResult result = simulate(trace, {.card = quick_card(), .budget = peak * 55 / 100, .steps = 12, .slow_clock = 1.1});
  const auto first = std::ranges::find(result.steps, true, &SimStep::planned);
  ASSERT_NE(first, result.steps.end());
  const auto plain = static_cast<double>(result.plain_time.count);
  EXPECT_GT(static_cast<double>(first->predicted.plain_time.count), plain * 1.07);
  // What the plan's copies are said to cost is taken off, and this clock never shows it.
  const Costs costs = costs_of(quick_card());
  const double copies = static_cast<double>(result.steps.back().predicted.moved.count) * (costs.out_price + costs.in_price);
  EXPECT_NEAR(static_cast<double>(result.steps.back().predicted.plain_time.count), plain - copies, plain / 50);
}

// What is measured slows the host down: once a run has settled no op is.
TEST(SimulateRetiming, OpsAreMeasuredInAFewStepsOfMany) {
  const Trace trace = recorded("vgg16_b128");
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  const SimResult result = simulate(trace, {.card = quick_card(), .budget = peak * 55 / 100, .steps = 30, .slow_clock = 1.1});
  ASSERT_EQ(result.steps.size(), 30u);
  const auto measured = std::ranges::count_if(result.steps, [](const SimStep& step) { return step.timed_ops > 0; });
  EXPECT_GE(measured, 2);  // before there was a plan, and by one
  EXPECT_LE(measured, 4);
  for (std::size_t step = 20; step < 30; ++step) EXPECT_EQ(result.steps[step].timed_ops, 0) << step;
}

// A card that gets slower for good: seen some windows later, and planned for. What hid no copy before does then.
TEST(SimulateRetiming, ACardThatSlowsDownAfterTheRunHasSettledIsMeasuredAgain) {
  const Trace trace = recorded("vgg16_b128");
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  SimOptions options{.card = quick_card(), .budget = peak * 70 / 100, .steps = 120, .slow_clock = 1};
  options.before_step = [](int step, FakeDevice& device) {
    if (step == 30) device.set_pace_percent(60);
  };
  const SimResult result = simulate(trace, options);
  ASSERT_EQ(result.steps.size(), 120u);
  const auto foretold = [&](std::size_t step) { return static_cast<double>(result.steps[step].predicted.time.count) / static_cast<double>(result.steps[step].time.count); };
  EXPECT_NEAR(foretold(29), 1, 0.05);
  EXPECT_LT(foretold(31), 0.7);
  EXPECT_NEAR(foretold(119), 1, 0.05);
  EXPECT_LT(result.steps[119].time, result.steps[31].time * 98 / 100);
  const auto measured = std::ranges::count_if(result.steps, [](const SimStep& step) { return step.timed_ops > 0; });
  EXPECT_LE(measured, 8);
}

// Aims: at most 1.3 times as long as the steady step, at most 1.5 times as many bytes. Its own copies out were waited for: VGG-16 took
// 1.37 and 1.55 times as long without copies ahead of need. At 45 % both are missed (1.53 and 1.54): only a plan knows which
// small storages to keep for a gradient's sake, and its steps are a quarter shorter for it.
TEST(SimulateFirstStep, IsNotMuchLongerThanASteadyOneAndMovesNotMuchMore) {
  const Trace trace = recorded("vgg16_b128");
  const Bytes peak = live_curve(Liveness(trace, *find_steady_step(trace))).peak;
  struct Aim {
    int share;
    double time, bytes;
  };
  for (const auto& [share, most, most_bytes] : {Aim{80, 1.3, 1.5}, {60, 1.3, 1.5}, {45, 1.55, 1.6}}) {
    const SimResult result = simulate(trace, {.card = find_card("h200"), .budget = peak * share / 100, .steps = 12});
    ASSERT_EQ(result.steps.size(), 12u);
    const auto bytes = [](const SimStep& step) { return static_cast<double>((step.moved_out + step.moved_in + step.rebuilt).count); };
    const SimStep &first = result.steps.front(), &last = result.steps.back();
    EXPECT_LE(static_cast<double>(first.time.count), static_cast<double>(last.time.count) * most) << share;
    EXPECT_LE(bytes(first), bytes(last) * most_bytes) << share;
  }
}

TEST(SimulateByHand, AnUnknownPolicyIsRefusedWithTheKnownOnes) {
  try {
    (void)simulate(two_uses(), {.card = quick_card(), .budget = 20_MiB, .policy = "best"});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("hybrid"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("dtr and lru"), std::string::npos);
  }
}

TEST(SimulateByHand, ATraceWithoutAStepIsRefused) {
  EXPECT_THROW((void)simulate(Trace{}, {.card = quick_card(), .budget = 20_MiB}), InputError);
}

TEST(CardTimes, ArithmeticGoesByArithmeticAndTheRestByMemory) {
  StepMaker maker;
  maker.begin();
  maker.op("aten::mm", {.takes = 100_us});
  maker.op("aten::add", {.takes = 100_us});
  maker.op("aten::view", {.takes = 1_us});
  maker.end();
  const Card from = find_card("h200"), to = find_card("v100");
  std::vector<Nanos> times;
  for (const Event& event : scale_times(maker.trace(), from, to).events) {
    if (const Op* op = std::get_if<Op>(&event)) times.push_back(op->duration);
  }
  ASSERT_EQ(times.size(), 3u);
  EXPECT_NEAR(static_cast<double>(times[0].count), 100e3 * 790 / 112, 1);
  EXPECT_NEAR(static_cast<double>(times[1].count), 100e3 * 4200 / 900, 1);
  EXPECT_EQ(times[2], 1_us);
}

}  // namespace
}  // namespace spillway
