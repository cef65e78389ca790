#include "base/units.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

#include "base/tick.h"

namespace spillway {
namespace {

template <class A, class B>
concept Adds = requires(A a, B b) { a + b; };
template <class A, class B>
concept Compares = requires(A a, B b) { a < b; };

TEST(Quantity, MixesOnlyWithItsOwnKind) {
  static_assert(Adds<Bytes, Bytes>);
  static_assert(!Adds<Bytes, Nanos>);
  static_assert(!Adds<Bytes, int>);
  static_assert(!Compares<Bytes, Nanos>);
  static_assert(!Compares<StorageId, OpIndex>);
  static_assert(!std::is_convertible_v<std::int64_t, Bytes>);
}

TEST(Quantity, LiteralsScaleToTheBaseUnit) {
  EXPECT_EQ((5_B).count, 5);
  EXPECT_EQ((5_KiB).count, 5 * 1024);
  EXPECT_EQ((5_MiB).count, 5 * 1024 * 1024);
  EXPECT_EQ((5_GiB).count, std::int64_t{5} * 1024 * 1024 * 1024);
  EXPECT_EQ((3_us).count, 3'000);
  EXPECT_EQ((3_ms).count, 3'000'000);
  EXPECT_EQ((3_s).count, 3'000'000'000);
}

TEST(Quantity, ArithmeticIsThatOfItsCount) {
  Bytes sum = 1_KiB;
  sum += 512_B;
  EXPECT_EQ(sum, 1536_B);
  sum -= 2_KiB;
  EXPECT_EQ(sum, -(512_B));
  EXPECT_EQ(3 * 4_KiB, 4_KiB * 3);
  EXPECT_EQ(10_KiB / 4, 2560_B);
}

TEST(Quantity, DividingByItsKindCountsWholeTimesAndLeavesTheRest) {
  EXPECT_EQ(7_MiB / 2_MiB, 3);
  EXPECT_EQ(7_MiB % 2_MiB, 1_MiB);
}

TEST(RoundUp, GivesTheNextMultipleAndKeepsMultiples) {
  EXPECT_EQ(round_up(0_B, 512_B), 0_B);
  EXPECT_EQ(round_up(1_B, 512_B), 512_B);
  EXPECT_EQ(round_up(512_B, 512_B), 512_B);
  EXPECT_EQ(round_up(513_B, 512_B), 1024_B);
  EXPECT_EQ(round_up(7_ns, 3_ns), 9_ns);  // steps need not be powers of two
}

TEST(RoundDown, GivesThePreviousMultipleAndKeepsMultiples) {
  EXPECT_EQ(round_down(511_B, 512_B), 0_B);
  EXPECT_EQ(round_down(512_B, 512_B), 512_B);
  EXPECT_EQ(round_down(1023_B, 512_B), 512_B);
}

TEST(Id, NamesNothingUntilItIsGivenAnIndex) {
  EXPECT_FALSE(StorageId{}.valid());
  EXPECT_TRUE(StorageId{0}.valid());
}

TEST(Id, HashesAsItCompares) {
  std::unordered_set<StreamId> seen{StreamId{1}, StreamId{2}, StreamId{1}};
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_TRUE(seen.contains(StreamId{2}));
}

TEST(Tick, OfOneStreamAreOrderedByValue) {
  const StreamId stream{3};
  EXPECT_LT((Tick{stream, 1}), (Tick{stream, 2}));
  EXPECT_LT((Tick{.stream = stream}), (Tick{stream, 1}));  // value 0 lies before any work
}

}  // namespace
}  // namespace spillway
