#include "engine/returns.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

// Ops 11, 12, 13 of the engine's count, 10, 20 and 30 ns long.
ForwardPass three_ops() {
  ForwardPass forward;
  forward.begin(10);
  forward.add(11, 10_ns, 4_B);
  forward.add(12, 20_ns, 9_B);
  forward.add(13, 30_ns, 5_B);
  return forward;
}

std::vector<std::size_t> order_of(const std::vector<Return>& returns) {
  std::vector<std::size_t> order;
  for (const Return& one : returns) order.push_back(one.at);
  return order;
}

// forward    11 12 13
// backward            13' 13' 12' 12' 11' 11'
TEST(Returns, TheBackwardGoesBackThroughTheForwardInTwiceItsTime) {
  const ForwardPass forward = three_ops();

  EXPECT_EQ(backward_time(forward, 13), 0_ns);
  EXPECT_EQ(backward_time(forward, 12), 60_ns);
  EXPECT_EQ(backward_time(forward, 11), 100_ns);
  EXPECT_EQ(backward_time(forward, 3), 120_ns);   // not used by the forward: when the backward is over
  EXPECT_EQ(backward_time(forward, 14), 120_ns);  // used by the backward itself
}

TEST(Returns, WhoWasUsedLastComesFirstAndWhoWasNotUsedLastOfAll) {
  const std::vector<Away> away{{StorageId{5}, 1_B, 3}, {StorageId{7}, 1_B, 11}, {StorageId{6}, 1_B, 13}, {StorageId{4}, 1_B, 2}};

  EXPECT_EQ(order_of(plan_returns(away, three_ops(), 0, 0_ns)), (std::vector<std::size_t>{2, 1, 3, 0}));
}

TEST(Returns, ACopyStartsEarlyEnoughForThoseBehindIt) {
  const std::vector<Away> away{{StorageId{1}, 10_B, 12}, {StorageId{2}, 10_B, 11}};

  // The second must start 2 x 25 + 1 before 100, the first as much before that.
  const auto returns = plan_returns(away, three_ops(), 2.5, 1_ns);

  ASSERT_EQ(returns.size(), 2u);
  EXPECT_EQ(returns[1].start, 49_ns);
  EXPECT_EQ(returns[0].start, Nanos{-2});
}

// forward    11 12 13
// made       x           used by 12; the backward goes back to it, then to where it was made
TEST(Returns, AStorageIsWantedWhereItWasUsedLastAndThenWhereItWasMade) {
  const ForwardPass forward = three_ops();

  EXPECT_EQ(next_use(forward, 14, /*made=*/11, /*used=*/12), 12u);
  EXPECT_EQ(next_use(forward, 13, 11, 12), 12u);
  EXPECT_EQ(next_use(forward, 12, 11, 12), 11u);  // the backward is there already
  EXPECT_EQ(next_use(forward, 13, 11, 0), 11u);   // or was before
  EXPECT_EQ(next_use(forward, 11, 11, 0), 0u);
}

TEST(Returns, WhatTheForwardDidNotMakeIsWantedOnceMoreWhenTheBackwardIsOver) {
  const ForwardPass forward = three_ops();

  EXPECT_EQ(next_use(forward, 14, /*made=*/3, /*used=*/12), 12u);  // a parameter
  EXPECT_EQ(next_use(forward, 12, 3, 12), 0u);
  EXPECT_EQ(next_use(forward, 14, 2, 3), 0u);    // the optimizer's
  EXPECT_EQ(next_use(forward, 14, 20, 20), 0u);  // a gradient
}

TEST(Returns, NoneAreWantedWhereNobodyIsAway) { EXPECT_TRUE(plan_returns({}, three_ops(), 1, 1_ns).empty()); }

TEST(Returns, TheNeediestOpOnTheWayCounts) {
  const ForwardPass forward = three_ops();

  EXPECT_EQ(forward.need_between(13, 13), 5_B);
  EXPECT_EQ(forward.need_between(12, 13), 9_B);
  EXPECT_EQ(forward.need_between(11, 11), 4_B);
  EXPECT_EQ(forward.need_between(2, 13), 9_B);  // before the forward: all of it
}

TEST(Returns, AForwardThatNeverEndsIsForgotten) {
  ForwardPass forward;
  forward.begin(0);
  for (std::uint64_t op = 1; op <= (1 << 18) + 1; ++op) forward.add(op, 1_ns, 1_B);

  EXPECT_EQ(forward.whole(), 1_ns);
  EXPECT_FALSE(forward.covers(1 << 18));
  EXPECT_TRUE(forward.covers((1 << 18) + 1));
}

TEST(Returns, AnOpThatOnlyLooksAddsToTheOneBeforeIt) {
  ForwardPass forward = three_ops();
  forward.add(13, 7_ns, 50_B);

  EXPECT_EQ(forward.whole(), 67_ns);
  EXPECT_EQ(forward.need_between(13, 13), 50_B);
}

}  // namespace
}  // namespace spillway
