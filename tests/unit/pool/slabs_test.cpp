#include "pool/slabs.h"

#include "pool_fixture.h"

namespace spillway {
namespace {

using testing::ElementsAre;

// Slabs of up to 2 MiB: requests up to 8 KiB are small. The first slab of a size has 32 slots.
class PoolSlabs : public PoolTest {
 protected:
  PoolSlabs() : PoolTest({.address_space = 1_GiB, .limit = 256_MiB, .granule = 2_MiB}) {}
};

TEST_F(PoolSlabs, SmallRequestsOfASizeLieSideBySide) {
  const auto first = allocate(1_KiB), second = allocate(700_B), other = allocate(4_KiB), third = allocate(1_KiB);
  EXPECT_EQ(second.range, (Range{first.range.end, first.range.end + 1_KiB}));
  EXPECT_EQ(third.range, (Range{second.range.end, second.range.end + 1_KiB}));
  EXPECT_EQ(other.range.begin, first.range.begin + 1_KiB * Slabs::kFirstSlots);
}

TEST_F(PoolSlabs, OnlyTheFirstSlotBringsMemoryToCommit) {
  EXPECT_EQ(allocate(1_KiB).granted, GrantClass::fresh);
  const auto second = allocate(1_KiB);
  EXPECT_EQ(second.granted, GrantClass::complete);
  EXPECT_TRUE(second.commit.empty());
}

TEST_F(PoolSlabs, SlotSizesWasteLittle) {
  for (std::int64_t size = 1; size <= 8'192; size += 7) {
    const Bytes slot = pool.try_allocate(Bytes{size}, A)->range.length();
    EXPECT_GE(slot, Bytes{size});
    EXPECT_LE(slot, round_up(Bytes{size}, 512_B) * 9 / 8) << size;
  }
}

TEST_F(PoolSlabs, ASlotCarriesItsLastUsesLikeAnyChunk) {
  std::vector<Kept> slots;
  for (int i = 0; i < Slabs::kFirstSlots; ++i) slots.push_back(allocate(512_B, A));
  free(slots[7], {{A, 3}});
  free(slots[9], {{B, 5}});
  const auto own = allocate(512_B, B);
  EXPECT_EQ(own.range, slots[9].range);
  EXPECT_EQ(own.granted, GrantClass::same_stream);
  pool.note_wait(B, {A, 3}, 0);
  const auto ordered = allocate(512_B, B);
  EXPECT_EQ(ordered.range, slots[7].range);
  EXPECT_EQ(ordered.granted, GrantClass::ordered);
}

// Rather than wait for a slot, a stream gets a slab more, as long as there is room for one.
TEST_F(PoolSlabs, ASlotThatNeedsAWaitIsTheLastChoice) {
  std::vector<Kept> slots;
  for (int i = 0; i < Slabs::kFirstSlots; ++i) slots.push_back(allocate(512_B, A));
  free(slots[7], {{A, 3}});
  allocate(2_MiB - 512_B * Slabs::kFirstSlots - 16_KiB, A);  // leaves room for one slab more
  for (int i = 0; i < Slabs::kFirstSlots; ++i) EXPECT_EQ(allocate(512_B, B).granted, GrantClass::complete);
  pool.set_limit(128_MiB);
  while (try_allocate(2_MiB, B)) continue;
  const auto waited = allocate(512_B, B);
  EXPECT_EQ(waited.range, slots[7].range);
  EXPECT_THAT(waited.waits, ElementsAre(Tick{A, 3}));
}

TEST_F(PoolSlabs, AnEmptySlabServesAGeneralRequestInsteadOfMoreMemory) {
  std::vector<ChunkId> slots;
  for (int i = 0; i < 3'000; ++i) slots.push_back(pool.try_allocate(512_B, A)->chunk);
  const Bytes reserved = pool.reserved();
  for (const ChunkId slot : slots) pool.free(slot, Tick{A, 1});
  EXPECT_EQ(pool.live(), 0_B);
  EXPECT_EQ(pool.stats().largest_free, reserved) << "empty slabs count as free";
  EXPECT_EQ(allocate(reserved, A).granted, GrantClass::same_stream);
  EXPECT_EQ(pool.reserved(), reserved);
}

TEST_F(PoolSlabs, ASlabWithOneSlotInUseStays) {
  const auto slot = allocate(512_B, A);
  allocate(2_MiB - 512_B * Slabs::kFirstSlots, A);
  pool.set_limit(2_MiB);
  EXPECT_FALSE(try_allocate(16_KiB, A));
  free(slot, {{A, 1}});
  EXPECT_TRUE(try_allocate(16_KiB, A));
}

TEST_F(PoolSlabs, TrimGivesEmptySlabsBack) {
  const auto slot = allocate(512_B, A);
  pool.note_done({A, 1});
  free(slot, {{A, 1}});
  EXPECT_THAT(pool.trim(), ElementsAre(Range{0_B, 2_MiB}));
  EXPECT_EQ(pool.reserved(), 0_B);
}

TEST_F(PoolSlabs, AnAbandonedSlabLeavesNoTrace) {
  const auto grant = pool.try_allocate(512_B, A);
  pool.abandon(*grant);
  pool.verify();
  EXPECT_EQ(pool.reserved(), 0_B);
  EXPECT_EQ(pool.stats().peak_reserved, 0_B);
}

// Everything but 2 KiB is taken: no room for a slab of 32 slots, but for a slot's worth.
TEST_F(PoolSlabs, WithoutRoomForASlabASmallRequestIsServedLikeAnyOther) {
  allocate(256_MiB - 2_KiB, A);
  EXPECT_EQ(allocate(512_B, A).range, (Range{256_MiB - 2_KiB, 256_MiB - 1'536_B}));
  EXPECT_EQ(allocate(512_B, A).range, (Range{256_MiB - 1'536_B, 256_MiB - 1_KiB}));
}

TEST(PoolSlabLimits, ASlabIsNeverMoreThanA64thOfTheLimit) {
  // 64 MiB: slabs of 1 MiB, small is up to 4 KiB; 4 MiB: 64 KiB would be too little for 256 slots of 512 bytes.
  Pool large({.address_space = 1_GiB, .limit = 64_MiB, .granule = 1_MiB});
  std::vector<Range> ranges;
  for (int i = 0; i < 20'000; ++i) ranges.push_back(large.try_allocate(512_B, A)->range);
  large.verify();
  EXPECT_LE(large.reserved() - large.live(), 1_MiB);
  Pool tiny({.address_space = 1_GiB, .limit = 4_MiB, .granule = 1_MiB});
  const auto first = tiny.try_allocate(512_B, A)->range, other = tiny.try_allocate(1_KiB, A)->range;
  EXPECT_EQ(other.begin, first.end) << "without slabs, sizes lie side by side";
}

// Slabs double: whatever the sizes, slabs hold at most twice what is live in them, and a first slab per size.
TEST_F(PoolSlabs, SlabsDoNotRunAheadOfWhatTheyHold) {
  Bytes asked;
  for (std::int64_t size = 512; size <= 8'192; size += 512) {
    for (int i = 0; i < 300; ++i) asked += pool.try_allocate(Bytes{size}, A)->range.length();
  }
  EXPECT_LE(pool.reserved(), asked * 2 + 2_MiB);
}

}  // namespace
}  // namespace spillway
