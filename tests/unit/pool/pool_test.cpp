#include "pool/pool.h"

#include "base/error.h"
#include "pool_fixture.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

using PoolGrants = PoolTest;
using PoolMerging = PoolTest;
using PoolGrowth = PoolTest;
using PoolBooks = PoolTest;

TEST_F(PoolGrants, TheFirstGrantIsFreshAndNamesWholeGranulesToCommit) {
  const auto grant = allocate(1'500_KiB);
  EXPECT_EQ(grant.range, (Range{0_B, 1'500_KiB}));
  EXPECT_EQ(grant.granted, GrantClass::fresh);
  EXPECT_EQ(grant.commit, (Range{0_B, 2_MiB}));
  EXPECT_EQ(pool.reserved(), 2_MiB);
  EXPECT_EQ(pool.live(), 1'500_KiB);
}

TEST_F(PoolGrants, SizesAreRoundedUpToTheAlignment) {
  EXPECT_EQ(allocate(1_B).range.length(), 512_B);
  EXPECT_EQ(allocate(513_B).range.length(), 1_KiB);
}

TEST_F(PoolGrants, AChunkIsUsableOnItsStreamAsSoonAsItsFreeIsScheduled) {
  const auto first = allocate(1_MiB, A);
  free(first, {{A, 1}});
  const auto second = allocate(1_MiB, A);
  EXPECT_EQ(second.range, first.range);
  EXPECT_EQ(second.granted, GrantClass::same_stream);
  EXPECT_THAT(second.waits, IsEmpty());
}

TEST_F(PoolGrants, AnotherStreamGetsItWithAWaitWhenNothingElseIsLeft) {
  const auto all = fill(1_MiB, A);
  free(all[3], {{A, 7}});
  const auto grant = allocate(1_MiB, B);
  EXPECT_EQ(grant.range, all[3].range);
  EXPECT_EQ(grant.granted, GrantClass::orderable);
  EXPECT_THAT(grant.waits, ElementsAre(Tick{A, 7}));
  EXPECT_EQ(pool.stats().waits_owed, 1);
}

TEST_F(PoolGrants, AStreamThatWaitedAlreadyOwesNothing) {
  const auto all = fill(1_MiB, A);
  free(all[3], {{A, 7}});
  pool.note_wait(B, {A, 7}, /*position=*/0);
  const auto grant = allocate(1_MiB, B);
  EXPECT_EQ(grant.granted, GrantClass::ordered);
  EXPECT_THAT(grant.waits, IsEmpty());
}

TEST_F(PoolGrants, AWaitThatWasNotReportedIsOwedAgain) {
  const auto all = fill(1_MiB, A);
  free(all[0], {{A, 7}});
  free(all[2], {{A, 5}});
  EXPECT_THAT(allocate(1_MiB, B).waits, ElementsAre(Tick{A, 7}));
  EXPECT_THAT(allocate(1_MiB, B).waits, ElementsAre(Tick{A, 5}));
}

TEST_F(PoolGrants, WhatIsDoneIsCompleteForEverybody) {
  const auto all = fill(1_MiB, A);
  free(all[3], {{A, 7}});
  pool.note_done({A, 7});
  EXPECT_EQ(allocate(1_MiB, B).granted, GrantClass::complete);
}

TEST_F(PoolGrants, WhatWasDoneBeforeTheFreeIsComplete) {
  const auto all = fill(1_MiB, A);
  pool.note_done({A, 7});
  free(all[3], {{A, 7}});
  EXPECT_EQ(allocate(1_MiB, A).granted, GrantClass::complete);
}

// limit  |used|A@1 |used|B@1 |used|A@2 |used|...   all 1 MiB but the last free one, 0.5 MiB smaller than its hole
// A prefers its own, then the complete, then the ordered, then waits; best fit only within the class.
TEST_F(PoolGrants, ABetterClassWinsOverABetterFit) {
  const auto all = fill(1_MiB, A);
  free(all[1], {{A, 1}});
  const auto mine = allocate(512_KiB, B);  // owes A@1, but now half of all[1] is B's
  free(mine, {{B, 1}});
  free(all[3], {{A, 2}});
  EXPECT_EQ(allocate(512_KiB, A).range.begin, all[1].range.begin + 512_KiB);  // A's half, an exact fit
  EXPECT_EQ(allocate(512_KiB, A).range.begin, all[3].range.begin);            // A's, though B's half would fit exactly
}

TEST_F(PoolGrants, ClassesAreServedInOrder) {
  const auto all = fill(1_MiB, A);
  free(all[1], {{C, 1}});  // orderable for B
  free(all[3], {{A, 4}});  // ordered for B
  free(all[5], {{C, 9}});  // complete
  free(all[7], {{B, 2}});  // B's own
  pool.note_wait(B, {A, 4}, 0);
  pool.note_done({A, 3});
  free(all[9], {{A, 3}});  // complete, no last use is kept
  std::vector<GrantClass> served;
  for (int i = 0; i < 5; ++i) served.push_back(allocate(1_MiB, B).granted);
  EXPECT_THAT(served, ElementsAre(GrantClass::same_stream, GrantClass::complete, GrantClass::ordered,
                                  GrantClass::orderable, GrantClass::orderable));
}

TEST_F(PoolGrants, TiesGoToTheLowestAddress) {
  const auto all = fill(1_MiB, A);
  free(all[9], {{A, 1}});
  free(all[3], {{A, 2}});
  free(all[6], {{A, 3}});
  EXPECT_EQ(allocate(1_MiB, A).range, all[3].range);
}

TEST_F(PoolGrants, AChunkSeveralStreamsUsedOwesAWaitForEachOfThem) {
  const auto all = fill(1_MiB, A);
  free(all[3], {{A, 7}, {C, 2}});
  EXPECT_THAT(allocate(1_MiB, B).waits, UnorderedElementsAre(Tick{A, 7}, Tick{C, 2}));
}

// A copy stream that waited for the last kernel: its tick implies the kernel's, so one last use is enough.
TEST_F(PoolGrants, ALastUseThatAnotherImpliesIsNotRemembered) {
  const auto all = fill(1_MiB, A);
  pool.note_wait(C, {A, 7}, 0);
  free(all[3], {{A, 7}, {C, 1}});
  EXPECT_EQ(allocate(1_MiB, C).granted, GrantClass::same_stream);
  pool.free(all[4].chunk, std::vector<Tick>{{A, 7}, {C, 1}});
  EXPECT_THAT(allocate(1_MiB, B).waits, ElementsAre(Tick{C, 1}));
}

TEST_F(PoolGrants, OfTheStreamsThatUsedItTheLastOneNotDoneMayHaveItForNothing) {
  const auto all = fill(1_MiB, A);
  free(all[3], {{A, 7}, {C, 2}});
  pool.note_done({C, 2});
  EXPECT_EQ(allocate(1_MiB, A).granted, GrantClass::same_stream);
}

// Granted to A while C's work is still running (C@5, which A waits for), and given back untouched.
TEST_F(PoolGrants, AChunkFreedWithoutAnAccessKeepsTheUsesItWasGrantedWith) {
  const auto all = fill(1_MiB, A);
  free(all[3], {{C, 5}});
  pool.note_wait(A, {C, 5}, 0);
  const auto untouched = allocate(1_MiB, A);
  EXPECT_EQ(untouched.granted, GrantClass::ordered);
  free(untouched, {});
  EXPECT_THAT(allocate(1_MiB, B).waits, ElementsAre(Tick{C, 5}));
}

// |  A@1  |  B@1  |used ...    1 MiB each: no single chunk has 1.5 MiB, the run has 2
TEST_F(PoolMerging, ARunOfNeighboursServesWhatNoChunkCan) {
  const auto all = fill(1_MiB, A);
  free(all[0], {{A, 1}});
  free(all[1], {{B, 1}});
  EXPECT_EQ(pool.stats().free_chunks, 2) << "a seam stays: merged, both would wait for both";
  const auto grant = allocate(1'536_KiB, A);
  EXPECT_EQ(grant.range, (Range{0_B, 1'536_KiB}));
  EXPECT_EQ(grant.granted, GrantClass::orderable);
  EXPECT_THAT(grant.waits, ElementsAre(Tick{B, 1}));
  EXPECT_THAT(allocate(512_KiB, B).waits, IsEmpty()) << "what is left of B's chunk is still B's alone";
}

// |  A@1  |  B@1  |used |  A@2  | done  | used    A wants 2 MiB: the second run needs no wait
TEST_F(PoolMerging, ARunThatNeedsNoWaitIsPreferred) {
  const auto all = fill(1_MiB, A);
  free(all[0], {{A, 1}});
  free(all[1], {{B, 1}});
  pool.note_done({C, 1});
  free(all[3], {{A, 2}});
  free(all[4], {{C, 1}});
  const auto grant = allocate(2_MiB, A);
  EXPECT_EQ(grant.range, (Range{3_MiB, 5_MiB}));
  EXPECT_EQ(grant.granted, GrantClass::same_stream);
}

TEST_F(PoolMerging, NeighboursOfOneStreamMergeToTheLaterTick) {
  const auto all = fill(1_MiB, A);
  pool.note_done({B, 1});  // several streams are about
  free(all[1], {{A, 9}});
  free(all[0], {{A, 3}});
  EXPECT_EQ(pool.stats().free_chunks, 1);
  EXPECT_THAT(allocate(512_KiB, B).waits, ElementsAre(Tick{A, 9}));
}

TEST_F(PoolMerging, NeighboursThatAreCompleteMerge) {
  const auto all = fill(1_MiB, A);
  free(all[0], {{A, 3}});
  pool.note_done({A, 3});
  pool.note_done({B, 8});
  free(all[1], {{B, 8}});
  EXPECT_EQ(pool.stats().free_chunks, 1);
  EXPECT_EQ(allocate(2_MiB, C).granted, GrantClass::complete);
}

TEST_F(PoolMerging, AChunkThatIsCompleteIsNotMadeToWait) {
  const auto all = fill(1_MiB, A);
  pool.note_done({B, 1});
  free(all[0], {{B, 1}});
  free(all[1], {{A, 3}});
  EXPECT_EQ(pool.stats().free_chunks, 2);
  EXPECT_EQ(allocate(1_MiB, C).granted, GrantClass::complete);
}

TEST_F(PoolMerging, WithOneStreamEverythingMerges) {
  const auto all = fill(1_MiB, A);
  pool.note_done({A, 1});
  free(all[0], {{A, 1}});
  free(all[2], {{A, 2}});
  free(all[1], {{A, 3}});
  EXPECT_EQ(pool.stats().free_chunks, 1);
}

TEST_F(PoolMerging, RunsStayShort) {
  pool.note_done({B, 1});
  const auto all = fill(256_KiB, A);
  for (std::uint64_t i = 0; i < all.size(); ++i) free(all[i], {{i % 2 == 0 ? A : B, i + 1}});
  EXPECT_LE(pool.stats().free_chunks, kLongestRun);
  EXPECT_EQ(pool.stats().largest_free, 16_MiB);
  EXPECT_EQ(allocate(16_MiB, A).range.length(), 16_MiB);
}

TEST_F(PoolMerging, FreeingEverythingLeavesOneStretch) {
  const auto all = fill(768_KiB, A);
  for (std::uint64_t i = 0; i < all.size(); ++i) free(all[(i * 5) % all.size()], {{A, i + 1}});
  EXPECT_EQ(pool.live(), 0_B);
  EXPECT_EQ(pool.stats().largest_free, pool.reserved());
  EXPECT_EQ(pool.stats().fragmentation(), 0);
}

// |used 1.5 MiB |free .5|  hole ...     2 MiB more: commit 1.5, rounded up to 2 granules, and use the free half below
TEST_F(PoolGrowth, GrowsByWhatIsMissingBesideFreeMemory) {
  allocate(1'536_KiB, A);
  const auto grant = allocate(2_MiB, A);
  EXPECT_EQ(grant.range, (Range{1'536_KiB, 3'584_KiB}));
  EXPECT_EQ(grant.granted, GrantClass::fresh);
  EXPECT_EQ(grant.commit, (Range{2_MiB, 4_MiB}));
  EXPECT_EQ(pool.reserved(), 4_MiB);
}

// The free memory beside the hole would need a wait: fresh memory is taken without it as long as the limit allows.
TEST_F(PoolGrowth, DoesNotWaitWhereItCanGrow) {
  const auto first = allocate(1_MiB, A);
  free(first, {{A, 1}});
  const auto grant = allocate(2_MiB, B);
  EXPECT_EQ(grant.range, (Range{1_MiB, 3_MiB}));
  EXPECT_EQ(grant.granted, GrantClass::fresh);
}

// Where memory is dear (pinned, or a file's), it is the other way round.
TEST_F(PoolGrowth, WaitsBeforeItGrowsWhereMemoryIsDear) {
  Pool dear({.address_space = 64_MiB, .limit = 16_MiB, .granule = 1_MiB, .dear_memory = true});
  const auto first = dear.try_allocate(2_MiB, A);
  ASSERT_TRUE(first);
  dear.free(first->chunk, Tick{A, 1});
  const auto again = dear.try_allocate(2_MiB, B);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->granted, GrantClass::orderable);
  EXPECT_EQ(dear.reserved(), 2_MiB);
}

// | A@1 1 MiB | hole, 15 MiB to the limit      B wants 16: all of it, and a wait for A
TEST_F(PoolGrowth, WaitsAndGrowsWhereOnlyBothTogetherDo) {
  const auto first = allocate(1_MiB, A);
  free(first, {{A, 1}});
  const auto grant = allocate(16_MiB, B);
  EXPECT_EQ(grant.range, (Range{0_B, 16_MiB}));
  EXPECT_EQ(grant.granted, GrantClass::orderable);
  EXPECT_THAT(grant.waits, ElementsAre(Tick{A, 1}));
  EXPECT_EQ(grant.commit, (Range{1_MiB, 16_MiB}));
}

// | used | hole 2 | free 1 | used |   after a trim; 3 MiB go into the hole and what is free above it
TEST_F(PoolGrowth, FillsAHoleTogetherWithBothShoulders) {
  const auto all = fill(1_MiB, A);
  free(all[1], {{A, 1}});
  free(all[2], {{A, 2}});
  pool.note_done({A, 2});
  EXPECT_THAT(pool.trim(), ElementsAre(Range{1_MiB, 3_MiB}));
  free(all[3], {{A, 3}});
  const auto grant = allocate(3_MiB, A);
  EXPECT_EQ(grant.range, (Range{1_MiB, 4_MiB}));
  EXPECT_EQ(grant.commit, (Range{1_MiB, 3_MiB}));
}

TEST_F(PoolGrowth, NeverExceedsTheLimit) {
  EXPECT_EQ(try_allocate(17_MiB, A), std::nullopt);
  const auto all = fill(3_MiB, A);
  EXPECT_EQ(all.size(), 5U);
  EXPECT_EQ(pool.reserved(), 15_MiB);
  EXPECT_EQ(pool.stats().refusals, 2);
  EXPECT_EQ(try_allocate(Bytes{INT64_MAX}, A), std::nullopt);
}

TEST_F(PoolGrowth, ALoweredLimitStopsGrowthAndLetsReservedStand) {
  const auto all = fill(1_MiB, A);
  pool.set_limit(4_MiB);
  EXPECT_EQ(pool.reserved(), 16_MiB);
  for (std::uint64_t i = 2; i < all.size(); ++i) free(all[i], {{A, i}});
  EXPECT_TRUE(try_allocate(5_MiB, A)) << "what is there may be used";
  EXPECT_EQ(try_allocate(12_MiB, A), std::nullopt);
  pool.note_done({A, 99});
  EXPECT_THAT(pool.trim(), ElementsAre(Range{7_MiB, 16_MiB}));
  pool.set_limit(16_MiB);
  EXPECT_EQ(allocate(9_MiB, A).granted, GrantClass::fresh);
}

TEST_F(PoolBooks, AnAbandonedGrantLeavesNoTrace) {
  const auto first = allocate(1'536_KiB, A);
  const auto grant = pool.try_allocate(4_MiB, A);
  pool.abandon(*grant);
  pool.verify();
  const PoolStats stats = pool.stats();
  EXPECT_EQ(stats.reserved, 2_MiB);
  EXPECT_EQ(stats.peak_reserved, 2_MiB);
  EXPECT_EQ(stats.live, first.range.length());
  EXPECT_EQ(stats.peak_live, first.range.length());
  EXPECT_THAT(stats.grants, ElementsAre(0, 0, 0, 1, 0));
  EXPECT_EQ(stats.largest_free, 512_KiB);
}

TEST_F(PoolBooks, AnAbandonedGrantGivesBackTheLastUsesToo) {
  const auto first = allocate(1_MiB, A);
  free(first, {{A, 1}});
  const auto grant = pool.try_allocate(16_MiB, B);
  pool.abandon(*grant);
  pool.verify();
  EXPECT_EQ(pool.reserved(), 1_MiB);
  EXPECT_EQ(pool.stats().waits_owed, 0);
  pool.set_limit(1_MiB);
  EXPECT_THAT(allocate(1_MiB, B).waits, ElementsAre(Tick{A, 1}));
}

TEST_F(PoolBooks, OnlyTheLatestGrantCanBeAbandoned) {
  const auto first = pool.try_allocate(1_MiB, A);
  const Grant kept = *first;
  const auto second = pool.try_allocate(1_MiB, A);
  EXPECT_THROW(pool.abandon(kept), InvariantError);
  pool.free(second->chunk, Tick{A, 1});
  EXPECT_THROW(pool.abandon(*second), InvariantError);
}

TEST_F(PoolBooks, StatisticsAddUp) {
  const auto first = allocate(3_MiB, A);
  allocate(1_MiB, A);
  free(first, {{A, 1}});
  allocate(512_KiB, A);
  const PoolStats stats = pool.stats();
  EXPECT_EQ(stats.live, 1'536_KiB);
  EXPECT_EQ(stats.peak_live, 4_MiB);
  EXPECT_EQ(stats.reserved, 4_MiB);
  EXPECT_EQ(stats.largest_free, 2'560_KiB);
  EXPECT_EQ(stats.live_chunks, 2);
  EXPECT_EQ(stats.free_chunks, 1);
  EXPECT_THAT(stats.grants, ElementsAre(1, 0, 0, 2, 0));
}

// | used | free 1 | used | free 3 | of 6 reserved: 1 of the 6 is free but not in the one piece
TEST_F(PoolBooks, FragmentationIsWhatIsFreeBesideTheLargestStretch) {
  allocate(1_MiB, A);
  const auto small = allocate(1_MiB, A);
  allocate(1_MiB, A);
  const auto large = allocate(3_MiB, A);
  free(small, {{A, 1}});
  free(large, {{A, 2}});
  EXPECT_DOUBLE_EQ(pool.stats().fragmentation(), 1.0 / 6);
  EXPECT_EQ(PoolStats{}.fragmentation(), 0);
}

TEST_F(PoolBooks, MisuseIsToldAtOnce) {
  const auto grant = allocate(1_MiB, A);
  EXPECT_THROW(pool.free(ChunkId{}, Tick{A, 1}), InvariantError);
  EXPECT_THROW(pool.free(ChunkId{999}, Tick{A, 1}), InvariantError);
  EXPECT_THROW(pool.free(grant.chunk, std::vector<Tick>{{A, 1}, {A, 2}}), InvariantError);
  EXPECT_THROW(pool.free(grant.chunk, Tick{StreamId{}, 1}), InvariantError);
  EXPECT_THROW((void)pool.try_allocate(0_B, A), InvariantError);
  EXPECT_THROW((void)pool.try_allocate(1_MiB, StreamId{}), InvariantError);
  EXPECT_THROW(pool.set_limit(Bytes{-1}), InvariantError);
  EXPECT_EQ(pool.range(grant.chunk), grant.range);
  free(grant, {{A, 1}});
  EXPECT_THROW(pool.free(grant.chunk, Tick{A, 2}), InvariantError);
  EXPECT_THROW((void)pool.range(grant.chunk), InvariantError);
}

TEST_F(PoolBooks, OptionsThatMakeNoSenseAreRefused) {
  PoolOptions options = small();
  options.alignment = 768_B;
  EXPECT_THROW(Pool{options}, InvariantError);
  options = small();
  options.granule = 700_B;
  EXPECT_THROW(Pool{options}, InvariantError);
  options = small();
  options.address_space = 0_B;
  EXPECT_THROW(Pool{options}, InvariantError);
}

TEST_F(PoolBooks, APoolCanBeMoved) {
  const auto grant = allocate(1_MiB, A);
  Pool moved = std::move(pool);
  moved.free(grant.chunk, Tick{A, 1});
  moved.verify();
  pool = Pool(small());
}

TEST_F(PoolBooks, TheSameCallsGiveTheSameAnswers) {
  Pool twin(small());
  std::vector<ChunkId> mine, twins;
  for (std::int64_t i = 1; i < 200; ++i) {
    const Bytes size = 1_KiB * (i * 7919 % 900 + 1);
    const StreamId on{static_cast<std::uint32_t>(i % 3)};
    const auto a = pool.try_allocate(size, on);
    const auto b = twin.try_allocate(size, on);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (a) {
      EXPECT_EQ(a->range, b->range);
      EXPECT_EQ(a->granted, b->granted);
      mine.push_back(a->chunk), twins.push_back(b->chunk);
    }
    if (i % 3 != 0 || mine.empty()) continue;
    const auto victim = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) % mine.size());
    pool.free(mine[static_cast<std::size_t>(victim)], Tick{on, static_cast<std::uint64_t>(i)});
    twin.free(twins[static_cast<std::size_t>(victim)], Tick{on, static_cast<std::uint64_t>(i)});
    mine.erase(mine.begin() + victim), twins.erase(twins.begin() + victim);
  }
}

}  // namespace
}  // namespace spillway
