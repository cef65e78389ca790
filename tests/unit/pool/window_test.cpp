#include "pool/window.h"

#include <limits>
#include <map>

#include "pool_fixture.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kStays = -1;

class PoolWindows : public PoolTest {
 protected:
  // Chunks of 1 MiB that fill the limit, with a price each; missing ones stay.
  PoolWindows() { all = fill(1_MiB, A); }
  std::optional<Window> find(Bytes size) {
    return pool.find_window(size, [&](ChunkId chunk) { return prices.contains(chunk) ? prices[chunk] : kStays; });
  }
  void price(std::vector<double> costs) {
    for (std::size_t i = 0; i < costs.size(); ++i) prices[all[i].chunk] = costs[i];
  }

  std::vector<Kept> all;
  std::map<ChunkId, double> prices;
};

// price  5 1 1 5 9 2 2 ...
// 2 MiB    ^^^
TEST_F(PoolWindows, TheCheapestRunIsFound) {
  price({5, 1, 1, 5, 9, 2, 2});
  const auto window = find(2_MiB);
  ASSERT_TRUE(window);
  EXPECT_EQ(window->range, (Range{1_MiB, 3_MiB}));
  EXPECT_THAT(window->evict, ElementsAre(all[1].chunk, all[2].chunk));
  EXPECT_DOUBLE_EQ(window->cost, 2);
}

TEST_F(PoolWindows, TiesGoToTheLowestAddress) {
  price({3, 3, 3, 3});
  EXPECT_EQ(find(2_MiB)->range, (Range{0_B, 2_MiB}));
}

// price  1 1 stays 1 1 1
TEST_F(PoolWindows, WhatMustStayIsNotInAWindow) {
  price({1, 1, kStays, 1, 1, 1});
  EXPECT_EQ(find(3_MiB)->range, (Range{3_MiB, 6_MiB}));
  EXPECT_FALSE(find(4_MiB));
  prices[all[4].chunk] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(find(3_MiB));
  prices[all[4].chunk] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(find(3_MiB));
}

// price  9 free free 4 | 1.5 1.5 1.5 1.5      3 MiB: 4 for one chunk beats 4.5 for three
TEST_F(PoolWindows, FreeChunksCostNothing) {
  price({9, kStays, kStays, 4, 1.5, 1.5, 1.5, 1.5});
  free(all[1], {{A, 1}});
  free(all[2], {{A, 2}});
  const auto window = find(3_MiB);
  EXPECT_EQ(window->range, (Range{1_MiB, 4_MiB}));
  EXPECT_THAT(window->evict, ElementsAre(all[3].chunk));
}

TEST_F(PoolWindows, OnceTheWindowIsFreeTheSizeIsServed) {
  price({5, 1, 1, 5, 9, 2, 2});
  const auto window = find(2'500_KiB);
  std::uint64_t tick = 0;
  for (const ChunkId chunk : window->evict) pool.free(chunk, Tick{++tick % 2 == 0 ? A : C, tick});
  const auto grant = try_allocate(2'500_KiB, B);
  ASSERT_TRUE(grant);
  EXPECT_TRUE(window->range.contains(grant->range));
}

// | used 1 | used 1 | hole 2, no room under the limit | used ...
TEST_F(PoolWindows, AHoleCountsOnlyAsFarAsTheLimitAllows) {
  free(all[2], {{A, 1}});
  free(all[3], {{A, 2}});
  pool.note_done({A, 2});
  EXPECT_THAT(pool.trim(), ElementsAre(Range{2_MiB, 4_MiB}));
  price({kStays, 7});
  pool.set_limit(14_MiB);
  EXPECT_FALSE(find(2_MiB));
  pool.set_limit(15_MiB);
  const auto half = find(2_MiB);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->range, (Range{1_MiB, 3_MiB}));
  EXPECT_THAT(half->evict, ElementsAre(all[1].chunk));
  pool.set_limit(16_MiB);
  EXPECT_THAT(find(2_MiB)->evict, IsEmpty());
}

// | 3 | hole 2 | 1 |    4 MiB: across the hole only
TEST_F(PoolWindows, AWindowMayReachAcrossAHole) {
  free(all[2], {{A, 1}});
  free(all[3], {{A, 2}});
  pool.note_done({A, 2});
  EXPECT_EQ(pool.trim().size(), 1U);
  price({kStays, 3, kStays, kStays, 1});
  const auto three = find(3_MiB);
  EXPECT_THAT(three->evict, ElementsAre(all[4].chunk));
  EXPECT_EQ(three->range, (Range{2_MiB, 5_MiB}));
  const auto four = find(4_MiB);
  EXPECT_EQ(four->range, (Range{1_MiB, 5_MiB}));
  EXPECT_DOUBLE_EQ(four->cost, 4);
  for (const ChunkId chunk : four->evict) pool.free(chunk, Tick{A, 9});
  EXPECT_EQ(allocate(4_MiB, A).range, four->range);
}

// A chunk of 1e18 somewhere must not blur the difference between 0.25 and 0.5 elsewhere.
TEST_F(PoolWindows, DearChunksDoNotBlurCheapOnes) {
  price({1e18, 0.5, kStays, 0.25, kStays, 0.5});
  EXPECT_EQ(find(1_MiB)->evict, std::vector{all[3].chunk});
  EXPECT_EQ(find(1_MiB)->cost, 0.25);
}

TEST_F(PoolWindows, MoreThanTheArenaHasNoWindow) {
  price(std::vector<double>(16, 1));
  EXPECT_TRUE(find(16_MiB));
  EXPECT_FALSE(find(17_MiB));
  EXPECT_FALSE(find(1_GiB));
}

class PoolWindowsWithSlabs : public PoolTest {
 protected:
  PoolWindowsWithSlabs() : PoolTest({.address_space = 1_GiB, .limit = 128_MiB, .granule = 2_MiB}) {}
};

TEST_F(PoolWindowsWithSlabs, SlabsStayAndAreNotAskedAbout) {
  const auto slot = allocate(512_B, A);
  const auto rest = allocate(2_MiB - 512_B * Slabs::kFirstSlots, A);
  pool.set_limit(2_MiB);
  const auto only_rest = [&](ChunkId chunk) {
    EXPECT_EQ(chunk, rest.chunk);
    return 1.0;
  };
  EXPECT_FALSE(pool.find_window(2_MiB, only_rest));
  EXPECT_TRUE(pool.find_window(1_MiB, only_rest));
  free(slot, {{A, 1}});
  EXPECT_TRUE(pool.find_window(2_MiB, only_rest)) << "an empty slab is free memory";
}

}  // namespace
}  // namespace spillway
