#include "plan/outlook.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

// A slow link, and ops that are quick beside it.
constexpr Costs kSlowLink{.out_nanos_per_byte = 4, .in_nanos_per_byte = 4, .out_price = 0, .in_price = 0, .per_copy = {}, .per_replay = {}};

// A dear norm makes a and its statistics; a is wanted again after c, beside which it does not fit.
Trace with_a_norm(Nanos lean) {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("a", 16_MiB);
    maker.birth("statistics", 1_KiB);
    maker.op("norm", {.in = {"x"}, .out = {"a", "statistics"}, .takes = 30_ms, .lean = lean});
    maker.birth("b", 2_MiB);
    maker.op("second", {.in = {"a"}, .out = {"b"}, .takes = 1_ms});
    maker.birth("c", 80_MiB);
    maker.op("third", {.in = {"b"}, .out = {"c"}, .takes = 1_ms});
    maker.death("c");
    maker.op("last", {.in = {"a", "b", "statistics"}, .takes = 1_ms});
    for (const char* name : {"a", "b", "statistics"}) maker.death(name);
    maker.end();
  }
  return maker.trace();
}

class Outlook : public ::testing::Test {
 protected:
  [[nodiscard]] static OutlookPoint look(const Trace& trace) {
    return look_at({.trace = trace, .policy = *find_plan_policy("hybrid"), .costs = kSlowLink}, 90_MiB);
  }
};

TEST_F(Outlook, OfAStepWithLeanTimesForetellsLess) {
  const OutlookPoint plain = look(with_a_norm(0_ns)), lean = look(with_a_norm(2_ms));
  EXPECT_EQ(plain.predicted.over, 0_B);
  EXPECT_EQ(plain.predicted.rebuild, 30_ms);
  EXPECT_EQ(lean.predicted.rebuild, 2_ms);
  EXPECT_EQ(plain.predicted.time - lean.predicted.time, 28_ms);
}

TEST_F(Outlook, JudgesChoicesWithTheStepsLeanTimes) {
  const Trace trace = with_a_norm(2_ms);
  const OutlookPoint found = look(trace);
  const OutlookPoint judged = judge_at({.trace = trace, .policy = *find_plan_policy("hybrid"), .costs = kSlowLink}, 90_MiB, found.decisions);
  EXPECT_EQ(judged.predicted.time, found.predicted.time);
  EXPECT_EQ(judged.predicted.rebuild, 2_ms);
}

}  // namespace
}  // namespace spillway
