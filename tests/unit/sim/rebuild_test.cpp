// Rebuilds on the simulated card that take a lean pass instead of running ops again, as the torch adapter runs them.
#include "sim/rebuild.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/simulate.h"
#include "support/step_maker.h"
#include "unit/sim/sim_card.h"

namespace spillway {
namespace {

using testing::OpLine;
using testing::quick_card;
using testing::StepMaker;

// What makes h, which is then idle while c takes the room, and read last; `sides` live until then.
struct Made {
  std::vector<std::string> sides = {"statistics"};
  bool side_dies = false;  // before h is wanted again
};

template <class Make>
Trace step_with(const Made& made, Make make) {
  StepMaker maker;
  maker.birth("x", 16_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    make(maker);
    maker.birth("b", 2_MiB);
    maker.op("second", {.in = {"h"}, .out = {"b"}, .takes = 1_ms});
    if (made.side_dies) maker.death(made.sides.front());
    maker.birth("c", 80_MiB);
    maker.op("third", {.in = {"b"}, .out = {"c"}, .takes = 1_ms});
    maker.death("c");
    maker.op("last", {.in = {"h", "b"}, .takes = 1_ms});
    for (const char* name : {"h", "b"}) maker.death(name);
    for (const std::string& side : made.sides) {
      if (!made.side_dies) maker.death(side);
    }
    maker.end();
  }
  return maker.trace();
}

void norm(StepMaker& maker, const char* name) {
  maker.birth(name, 16_MiB);
  maker.birth("statistics", 1_KiB);
  maker.op("norm", {.in = {"x"}, .out = {name, "statistics"}, .takes = 6_ms, .workspace = 64_KiB, .lean = 500_us});
}

// The link is so slow that whoever leaves is dropped.
SimResult run(const Trace& trace) {
  Card card = quick_card();
  card.out = card.in = card.out_both = card.in_both = {10'000'000};
  return simulate(trace, {.card = card, .budget = 106_MiB, .policy = "hybrid", .steps = 8, .places = false});
}

void expect_rebuilt_in(const SimResult& result, Nanos time, std::int64_t ops, bool lean) {
  ASSERT_FALSE(result.unfit.has_value());
  const SimStep& last = result.steps.back();
  EXPECT_TRUE(last.planned);
  EXPECT_EQ(last.surprises, 0);
  EXPECT_EQ(last.rebuilds, time);
  EXPECT_EQ(last.predicted.rebuild, time);
  EXPECT_EQ(last.rebuilt_ops, ops);
  EXPECT_EQ(last.peak_live, last.predicted.peak_home);
  EXPECT_EQ(result.stats.lean_rebuilds > 0, lean);
}

TEST(SimulatedRebuild, OfAFirstResultIsMadeFromItsSides) {
  expect_rebuilt_in(run(step_with({}, [](StepMaker& maker) { norm(maker, "h"); })), 500_us, 1, true);
}

TEST(SimulatedRebuild, WithoutItsSidesRunsTheOp) {
  expect_rebuilt_in(run(step_with({.side_dies = true}, [](StepMaker& maker) { norm(maker, "h"); })), 6_ms, 1, false);
}

TEST(SimulatedRebuild, ByATwinTakesTheTwinsTime) {
  expect_rebuilt_in(run(step_with({}, [](StepMaker& maker) {
    maker.birth("h", 16_MiB);
    maker.birth("statistics", 1_KiB);
    maker.op("pool", {.in = {"x"}, .out = {"h", "statistics"}, .takes = 6_ms, .again = 2_ms});
  })), 2_ms, 1, false);
}

TEST(SimulatedRebuild, OfWhatWasChangedInPlaceIsOnePass) {
  const auto result = run(step_with({}, [](StepMaker& maker) {
    norm(maker, "h");
    maker.op("add_", {.in = {"x"}, .write = {"h"}, .takes = 300_us, .lean = 100_us});
    maker.op("relu_", {.write = {"h"}, .takes = 200_us, .lean = 1_ns});
  }));
  expect_rebuilt_in(result, 600_us + 1_ns, 1, true);
}

TEST(SimulatedRebuild, OfWhatWasChangedByAnOpThatDoesNotRideIsOpByOp) {
  const auto result = run(step_with({}, [](StepMaker& maker) {
    norm(maker, "h");
    maker.op("gelu_", {.write = {"h"}, .takes = 200_us});
  }));
  expect_rebuilt_in(result, 700_us, 2, true);
}

TEST(SimulatedRebuild, OfACastReadsStraightWhatTheDeadNormRead) {
  const auto result = run(step_with({}, [](StepMaker& maker) {
    norm(maker, "n");
    maker.birth("h", 16_MiB);
    maker.op("cast", {.in = {"n"}, .out = {"h"}, .takes = 200_us, .lean = 400_us});
    maker.death("n");
  }));
  expect_rebuilt_in(result, 200_us, 1, true);
}

// z comes first among the arguments; the dropout's result is dead, z is there.
TEST(SimulatedRebuild, OfASumReadsStraightWhatTheDeadDropoutRead) {
  const auto result = run(step_with({.sides = {"mask"}}, [](StepMaker& maker) {
    maker.birth("d", 16_MiB);
    maker.birth("mask", 4_KiB);
    maker.op("dropout", {.in = {"x"}, .out = {"d", "mask"}, .takes = 6_ms, .lean = 500_us});
    maker.birth("h", 16_MiB);
    maker.op("sum", {.in = {"x", "d"}, .out = {"h"}, .takes = 700_us, .lean = 600_us});
    maker.death("d");
  }));
  expect_rebuilt_in(result, 600_us, 1, true);
}

}  // namespace
}  // namespace spillway
