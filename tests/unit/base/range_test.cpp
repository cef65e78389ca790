#include "base/range.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Range, LengthIsEndMinusBegin) { EXPECT_EQ((Range{4_KiB, 6_KiB}).length(), 2_KiB); }

TEST(Range, IsEmptyWhenItEndsWhereItBeginsOrBefore) {
  EXPECT_TRUE(Range{}.empty());
  EXPECT_TRUE((Range{8_B, 8_B}).empty());
  EXPECT_TRUE((Range{9_B, 8_B}).empty());
  EXPECT_FALSE((Range{8_B, 9_B}).empty());
}

//  outer   [2 ......... 8)
//  inner   [2 ... 5)          shares the begin
//  tail            [5 . 8)    shares the end
//  beyond          [5 ... 9)  sticks out
TEST(Range, ContainsWhatLiesWhollyInside) {
  const Range outer{2_B, 8_B};
  EXPECT_TRUE(outer.contains(outer));
  EXPECT_TRUE(outer.contains({2_B, 5_B}));
  EXPECT_TRUE(outer.contains({5_B, 8_B}));
  EXPECT_FALSE(outer.contains({5_B, 9_B}));
  EXPECT_FALSE(outer.contains({1_B, 3_B}));
}

TEST(Range, NeighboursThatTouchDoNotOverlap) {
  EXPECT_FALSE((Range{0_B, 4_B}).overlaps({4_B, 8_B}));
  EXPECT_FALSE((Range{4_B, 8_B}).overlaps({0_B, 4_B}));
  EXPECT_TRUE((Range{0_B, 5_B}).overlaps({4_B, 8_B}));
  EXPECT_TRUE((Range{0_B, 8_B}).overlaps({3_B, 4_B}));
}

TEST(Range, OrdersByBeginThenEnd) {
  EXPECT_LT((Range{1_B, 9_B}), (Range{2_B, 3_B}));
  EXPECT_LT((Range{1_B, 3_B}), (Range{1_B, 9_B}));
}

}  // namespace
}  // namespace spillway
