#include "pool/remap.h"

#include "base/error.h"
#include "pool_fixture.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PoolRemap : public PoolTest {
 protected:
  PoolRemap() { all = fill(1_MiB, A); }
  std::vector<Kept> all;
};

// before  |free|used|free|used| ... |used| tail: no memory
// after   |hole|used|hole|used| ... |used| 2 MiB |
TEST_F(PoolRemap, MovesFreeGranulesToWhereTheyMakeOneHole) {
  free(all[0], {{A, 1}});
  free(all[2], {{A, 2}});
  EXPECT_FALSE(try_allocate(2_MiB, A));
  const auto remap = pool.plan_remap(2_MiB);
  ASSERT_TRUE(remap);
  EXPECT_THAT(remap->decommit, ElementsAre(Range{0_B, 1_MiB}, Range{2_MiB, 3_MiB}));
  EXPECT_EQ(remap->commit, (Range{16_MiB, 18_MiB}));
  EXPECT_THAT(remap->wait_for, ElementsAre(Tick{A, 2}));
  pool.apply_remap(*remap);
  pool.verify();
  EXPECT_EQ(pool.reserved(), 16_MiB);
  const auto grant = allocate(2_MiB, B);
  EXPECT_EQ(grant.range, (Range{16_MiB, 18_MiB}));
  EXPECT_EQ(grant.granted, GrantClass::complete);
}

// |used ... |free|tail     the free granule at the end stays where it is: only one more is needed behind it
TEST_F(PoolRemap, CommitsAsFewBytesAsPossible) {
  free(all[3], {{A, 1}});
  free(all[5], {{A, 2}});
  free(all[15], {{A, 3}});
  const auto remap = pool.plan_remap(2_MiB);
  EXPECT_THAT(remap->decommit, ElementsAre(Range{3_MiB, 4_MiB}));
  EXPECT_EQ(remap->commit, (Range{16_MiB, 17_MiB}));
}

TEST_F(PoolRemap, TakesCompleteGranulesFirst) {
  free(all[1], {{A, 9}});
  free(all[3], {{A, 8}});
  free(all[5], {{A, 3}});
  free(all[7], {{A, 4}});
  pool.note_done({A, 4});
  const auto remap = pool.plan_remap(2_MiB);
  EXPECT_THAT(remap->decommit, ElementsAre(Range{5_MiB, 6_MiB}, Range{7_MiB, 8_MiB}));
  EXPECT_THAT(remap->wait_for, IsEmpty());
}

// The unused part of the limit counts: one granule moves, one is new.
TEST_F(PoolRemap, UsesWhatTheLimitLeaves) {
  free(all[1], {{A, 1}});
  free(all[3], {{A, 2}});
  pool.set_limit(17_MiB);
  const auto remap = pool.plan_remap(2_MiB);
  EXPECT_THAT(remap->decommit, ElementsAre(Range{1_MiB, 2_MiB}));
  pool.apply_remap(*remap);
  pool.verify();
  EXPECT_EQ(pool.reserved(), 17_MiB);
}

TEST_F(PoolRemap, PartOfAGranuleCannotMove) {
  free(all[1], {{A, 1}});
  allocate(512_B, A);
  EXPECT_FALSE(pool.plan_remap(1_MiB));
}

TEST_F(PoolRemap, WhereAHoleIsThereAlreadyNothingIsMoved) {
  free(all[1], {{A, 1}});
  free(all[2], {{B, 1}});
  const auto remap = pool.plan_remap(2_MiB);
  ASSERT_TRUE(remap);
  EXPECT_THAT(remap->decommit, IsEmpty());
  EXPECT_TRUE(remap->commit.empty());
  pool.apply_remap(*remap);
}

TEST_F(PoolRemap, IsRefusedWithoutEnoughFreeBytesOrAddresses) {
  free(all[1], {{A, 1}});
  EXPECT_FALSE(pool.plan_remap(2_MiB));
  EXPECT_FALSE(pool.plan_remap(1_GiB));
  Pool tight({.address_space = 4_MiB, .limit = 4_MiB, .granule = 1_MiB, .slab = 0_B});
  std::vector<ChunkId> chunks;
  for (int i = 0; i < 4; ++i) chunks.push_back(tight.try_allocate(1_MiB, A)->chunk);
  tight.free(chunks[0], Tick{A, 1});
  tight.free(chunks[2], Tick{A, 2});
  EXPECT_FALSE(tight.plan_remap(2_MiB)) << "no addresses without memory are left";
}

// |free|hole|  : a lowered limit does not forbid a remap that keeps reserved as it is
TEST_F(PoolRemap, WorksAboveALoweredLimit) {
  free(all[1], {{A, 1}});
  free(all[3], {{A, 2}});
  pool.set_limit(8_MiB);
  const auto remap = pool.plan_remap(2_MiB);
  ASSERT_TRUE(remap);
  pool.apply_remap(*remap);
  pool.verify();
  EXPECT_EQ(pool.reserved(), 16_MiB);
}

TEST_F(PoolRemap, APlanThatDoesNotFitTheBooksIsRefused) {
  free(all[1], {{A, 1}});
  EXPECT_THROW(pool.apply_remap({.decommit = {{0_B, 1_MiB}}, .commit = {20_MiB, 21_MiB}, .wait_for = {}}),
               InvariantError);
  EXPECT_THROW(pool.apply_remap({.decommit = {}, .commit = {2_MiB, 3_MiB}, .wait_for = {}}), InvariantError);
  EXPECT_THROW(pool.apply_remap({.decommit = {}, .commit = {20_MiB, 21_MiB}, .wait_for = {}}), InvariantError);
}

// | A@1 | B@1 | used | A@2 done | used |: only what is done goes
TEST_F(PoolRemap, TrimLeavesWhatIsStillInUse) {
  free(all[4], {{A, 2}});
  pool.note_done({A, 2});
  free(all[0], {{A, 3}});
  free(all[1], {{B, 1}});
  EXPECT_THAT(pool.trim(), ElementsAre(Range{4_MiB, 5_MiB}));
  pool.verify();
  EXPECT_EQ(pool.reserved(), 15_MiB);
  pool.note_done({B, 1});
  EXPECT_THAT(pool.trim(), ElementsAre(Range{1_MiB, 2_MiB}));
  pool.note_done({A, 3});
  EXPECT_THAT(pool.trim(), ElementsAre(Range{0_B, 1_MiB}));
  EXPECT_THAT(pool.trim(), IsEmpty());
}

// Two complete chunks with a seam in the middle of a granule give the whole granule.
TEST_F(PoolRemap, TrimTakesGranulesAcrossSeams) {
  free(all[0], {{A, 1}});
  const auto lower = allocate(512_KiB, A), upper = allocate(512_KiB, A);
  free(lower, {{A, 2}});
  free(upper, {{B, 2}});
  EXPECT_EQ(pool.stats().free_chunks, 2);
  pool.note_done({A, 2});
  pool.note_done({B, 2});
  EXPECT_THAT(pool.trim(), ElementsAre(Range{0_B, 1_MiB}));
}

}  // namespace
}  // namespace spillway
