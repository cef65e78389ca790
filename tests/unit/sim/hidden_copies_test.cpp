// The same as plan/hidden_copies_test.cpp, carried out by the engine.
#include "support/hidden_copies.h"

#include <gtest/gtest.h>

#include "liveness/curve.h"
#include "sim/simulate.h"
#include "unit/sim/sim_card.h"

namespace spillway {
namespace {

using testing::quick_card;

// Kernels beside a copy of so many bytes lose this much.
Nanos price(Bytes bytes, Rate rate, Millionths slower) {
  return Nanos{static_cast<std::int64_t>(static_cast<double>(bytes.count) * 1e9 / static_cast<double>(rate.count) * static_cast<double>(slower.count) / 1e6) + 1};
}

SimStep last_step(const Trace& trace, Bytes budget) {
  const SimResult result = simulate(trace, {.card = quick_card(), .budget = budget, .policy = "hybrid", .steps = 12});
  EXPECT_FALSE(result.unfit.has_value());
  EXPECT_LE(result.stats.peak_reserved, budget);
  const SimStep last = result.steps.back();
  EXPECT_TRUE(last.planned);
  EXPECT_EQ(last.surprises, 0);
  EXPECT_EQ(last.fetch + last.room, 0_ns);
  return last;
}

TEST(HiddenCopies, AdamsMomentsAreAwayThroughForwardAndBackwardAtNoCost) {
  const Trace trace = testing::adam_step();
  const Liveness step(trace, *find_steady_step(trace));
  const SimStep last = last_step(trace, live_curve(step).peak - testing::kState / 2);
  EXPECT_GE(last.moved_out, testing::kState / 2 - 16_MiB);
  EXPECT_EQ(last.moved_in, last.moved_out + last.left_clean);
  EXPECT_EQ(last.rebuilt, 0_B);
  const Card card = quick_card();
  const Nanos most = price(last.moved_out, card.out, card.slower_beside_out) + price(last.moved_in, card.in, card.slower_beside_in);
  EXPECT_LE(last.time, step.starts().back() + most);
}

TEST(HiddenCopies, ARebuildFindsWhatItIsMadeOfAtHome) {
  const SimStep last = last_step(testing::rebuild_from_moved(), 104_MiB);
  EXPECT_EQ(last.rebuilt, 64_MiB);
  EXPECT_EQ(last.moved_in, 32_MiB);
}

}  // namespace
}  // namespace spillway
