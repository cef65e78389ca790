#include "sim/again.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "liveness/curve.h"
#include "sim/player.h"
#include "sim/simulate.h"
#include "trace/check.h"
#include "trace/reader.h"
#include "unit/sim/sim_card.h"

namespace spillway {
namespace {

using testing::quick_card;
using testing::recorded;

// Four steps of a model inside a budget, and the trace of that.
class PlayAgain : public ::testing::TestWithParam<const char*> {
 protected:
  const Trace step_trace = recorded("vgg16_b128");
  const WholeStep whole = *find_steady_step(step_trace);
  const Liveness step{step_trace, whole};
  const Score score = read_score(step_trace, whole, step);
  const std::string path = std::filesystem::temp_directory_path() / ("again_test_" + std::to_string(getpid()) + ".spt");

  ~PlayAgain() override { std::filesystem::remove(path); }

  Trace record(const std::string& policy, bool minutes = true, int steps = 4, const WriterOptions& kept = {}) {
    SimOptions sim{.card = quick_card(), .budget = live_curve(step).peak * 60 / 100, .policy = policy, .steps = steps};
    EngineOptions options = engine_options(sim);
    options.minutes = minutes;
    FakeDevice device(sim.card);
    Player player(device, options, score, step);
    player.open_trace(path, kept);
    for (int i = 0; i < sim.steps; ++i) player.play_step();
    EXPECT_FALSE(player.unfit());
    player.close_trace();
    return read_trace(path);
  }
};

bool has(const std::vector<Act>& acts, Deed deed) {
  return std::ranges::any_of(acts, [&](const Act& act) { return act.deed == deed; });
}

TEST_P(PlayAgain, ARunInsideABudgetGoesTheSameWay) {
  const Trace trace = record(GetParam());
  EXPECT_TRUE(check_trace(trace, 1).empty());

  const AgainResult result = play_again(trace);

  EXPECT_EQ(result.problem, "");
  EXPECT_FALSE(result.difference);
  EXPECT_GT(result.recorded, 30u);
  EXPECT_EQ(result.steps, 4u);
  EXPECT_TRUE(result.whole);
  EXPECT_EQ(result.same, result.recorded);
  EXPECT_EQ(result.played, result.recorded);
  EXPECT_EQ(result.ops, score.ops.size() * result.steps);
}

TEST_P(PlayAgain, AnotherBudgetOrPolicyIsSeen) {
  const Trace trace = record(GetParam());
  const Bytes budget = live_curve(step).peak * 55 / 100;
  const std::string other = std::string(GetParam()) == "lru" ? "dtr" : "lru";

  const AgainResult smaller = play_again(trace, {.budget = budget, .policy = {}});
  const AgainResult by_other = play_again(trace, {.budget = {}, .policy = other});

  for (const AgainResult& result : {smaller, by_other}) {
    ASSERT_TRUE(result.difference);
    EXPECT_LT(result.same, result.recorded);
    EXPECT_NE(result.difference->recorded, result.difference->played);
  }
}

TEST_P(PlayAgain, AnActThatWasEditedIsSeenWhereItIs) {
  Trace trace = record(GetParam());
  const std::vector<Act> acts = acts_of(trace);
  std::size_t nth = 0;
  for (Event& event : trace.events) {
    Move* move = std::get_if<Move>(&event);
    nth += move != nullptr || std::holds_alternative<Recompute>(event) ? 1 : 0;
    if (move != nullptr && nth > 20) {
      move->storage.index += 1;
      break;
    }
  }

  const AgainResult result = play_again(trace);

  ASSERT_TRUE(result.difference);
  EXPECT_EQ(result.same, nth - 1);
  EXPECT_EQ(result.difference->played, acts[nth - 1]);
  EXPECT_EQ(result.difference->recorded->storage.index, acts[nth - 1].storage.index + 1);
}

INSTANTIATE_TEST_SUITE_P(Policies, PlayAgain, ::testing::Values("lru", "dtr", "hybrid", "tensile"));

using PlayAgainOnly = PlayAgain;

TEST_F(PlayAgainOnly, DtrDropsAndRebuildsTheSame) {
  const std::vector<Act> acts = acts_of(record("dtr"));
  EXPECT_TRUE(has(acts, Deed::drop));
  EXPECT_TRUE(has(acts, Deed::recompute));
}

// A long trace keeps only its first and last steps whole.
TEST_F(PlayAgainOnly, WhatATraceKeptWholeFromTheFirstStepOnIsPlayed) {
  const AgainResult result = play_again(record("dtr", /*minutes=*/true, /*steps=*/12));
  EXPECT_FALSE(result.difference);
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.steps, 3u);
  EXPECT_FALSE(result.whole);
}

// A process that was killed: the trace may end anywhere.
TEST_F(PlayAgainOnly, ATraceThatEndsInTheMiddleIsPlayedUntilThere) {
  Trace trace = record("dtr");
  for (std::size_t step = trace.events.size() / 97; trace.events.size() > step; trace.events.resize(trace.events.size() - step)) {
    trace.events.pop_back();  // the end, at first
    const AgainResult result = play_again(trace);
    ASSERT_FALSE(result.difference) << trace.events.size();
    ASSERT_EQ(result.problem, "") << trace.events.size();
    ASSERT_FALSE(result.whole);
  }
}

std::size_t calls_of(const Trace& trace, CallKind kind) {
  return static_cast<std::size_t>(std::ranges::count_if(trace.events, [&](const Event& event) {
    const Call* one = std::get_if<Call>(&event);
    return one != nullptr && one->kind == kind;
  }));
}

TEST_F(PlayAgainOnly, ARunTakesToItsPlansInTheSameSteps) {
  const Trace trace = record("hybrid", /*minutes=*/true, /*steps=*/10, WriterOptions::keep_all());
  ASSERT_GT(calls_of(trace, CallKind::follow), 0u);
  ASSERT_GT(calls_of(trace, CallKind::script), 0u);

  const AgainResult result = play_again(trace);

  EXPECT_FALSE(result.difference);
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.steps, 10u);
  EXPECT_TRUE(result.whole);
  EXPECT_GT(result.recorded, 100u);
}

// Who takes to a plan a step early, or to another one, decides otherwise.
TEST_F(PlayAgainOnly, APlanThatIsMissingIsSeen) {
  Trace trace = record("hybrid", /*minutes=*/true, /*steps=*/10, WriterOptions::keep_all());
  std::erase_if(trace.events, [](const Event& event) {
    const Call* one = std::get_if<Call>(&event);
    return one != nullptr && (one->kind == CallKind::follow || one->kind == CallKind::script);
  });
  EXPECT_TRUE(play_again(trace).difference);
}

TEST_F(PlayAgainOnly, ARunByPlansMayBePlayedWithoutThem) {
  const AgainResult result = play_again(record("hybrid"), {.budget = {}, .policy = "dtr"});
  EXPECT_TRUE(result.difference);
}

TEST_F(PlayAgainOnly, AScriptWithWordsThatAreNoneIsRefused) {
  Trace trace = record("hybrid", /*minutes=*/true, /*steps=*/10, WriterOptions::keep_all());
  for (Event& event : trace.events) {
    Call* call = std::get_if<Call>(&event);
    if (call == nullptr || call->kind != CallKind::script) continue;
    call->words.resize(call->words.size() / 2);
    break;
  }
  const AgainResult result = play_again(trace);
  EXPECT_NE(result.problem.find("script"), std::string::npos) << result.problem;
}

// No run does that, an edited trace may.
TEST_F(PlayAgainOnly, ARunThatTakesToAnotherScriptInTheMiddleOfAStepIsToldApart) {
  const Trace trace = record("hybrid", /*minutes=*/true, /*steps=*/10, WriterOptions::keep_all());
  const auto call = [](const Event& event, CallKind kind) {
    const Call* one = std::get_if<Call>(&event);
    return one != nullptr && one->kind == kind;
  };
  const auto follow = std::ranges::find_if(trace.events, [&](const Event& event) { return call(event, CallKind::follow); });
  const auto next = [&](auto from, CallKind kind) { return std::find_if(from, trace.events.end(), [&](const Event& event) { return call(event, kind); }); };
  const auto begun = next(follow, CallKind::begin_step);
  for (const std::uint64_t script : {0, 1}) {
    for (const std::ptrdiff_t ops : {0, 40}) {
      Trace edited = trace;
      auto at = begun;
      for (std::ptrdiff_t op = 0; op <= ops; ++op) at = next(at + 1, CallKind::before);
      ASSERT_NE(at, trace.events.end());
      edited.events.insert(edited.events.begin() + (at - trace.events.begin()), Call{.kind = CallKind::follow, .words = {script}});
      const AgainResult result = play_again(edited);
      EXPECT_TRUE(result.difference || !result.problem.empty()) << script << " after " << ops;
    }
  }
}

TEST_F(PlayAgainOnly, ATraceWithoutMinutesIsRefused) { EXPECT_THROW((void)play_again(record("lru", /*minutes=*/false)), InputError); }

// An answer that is missing: the engine asks, and the run has nothing to say.
TEST_F(PlayAgainOnly, ACallThatIsMissingIsToldAndNotGuessed) {
  Trace trace = record("lru");
  const auto call = std::ranges::find_if(trace.events, [](const Event& event) {
    const Call* one = std::get_if<Call>(&event);
    return one != nullptr && one->kind == CallKind::answer;
  });
  ASSERT_NE(call, trace.events.end());
  trace.events.erase(call);

  const AgainResult result = play_again(trace);

  EXPECT_NE(result.problem, "");
  EXPECT_TRUE(result.difference);
}

}  // namespace
}  // namespace spillway
