// The placed part of the arena: addresses chosen by the caller, kept apart from those the pool chooses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

#include "pool/pool.h"

namespace spillway {
namespace {

using testing::ElementsAre;

constexpr StreamId kCompute{0}, kCopy{1};
constexpr Bytes kPart = 1_GiB;

Pool make_pool(Bytes limit = 64_MiB) {
  return Pool({.address_space = 2_GiB, .limit = limit, .placed_from = kPart});
}

// As Arena does it: memory where there is none, then the place.
std::optional<Grant> take_at(Pool& pool, Range range, StreamId on) {
  const auto lacking = pool.lacking(range);
  if (!lacking) return std::nullopt;
  Bytes more;
  for (const Range part : *lacking) more += part.length();
  if (pool.reserved() + more > pool.limit()) return std::nullopt;
  for (const Range part : *lacking) pool.apply_remap({.decommit = {}, .commit = part, .wait_for = {}});
  return pool.try_allocate_at(range, on);
}

TEST(PlacedPart, GivesTheVeryRangeAndNobodyElseGetsIt) {
  Pool pool = make_pool();
  const Range range{kPart + 3_MiB, kPart + 8_MiB};
  const auto grant = take_at(pool, range, kCompute);
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->range, range);
  EXPECT_EQ(pool.reserved(), 6_MiB);  // whole granules
  EXPECT_FALSE(take_at(pool, {kPart + 4_MiB, kPart + 5_MiB}, kCompute));
  EXPECT_FALSE(take_at(pool, {kPart + 7_MiB, kPart + 9_MiB}, kCompute));
  EXPECT_TRUE(take_at(pool, {kPart + 8_MiB, kPart + 9_MiB}, kCompute));
  pool.verify();
}

TEST(PlacedPart, OthersAreServedElsewhereWhileThereIsRoom) {
  Pool pool = make_pool();
  const auto placed = take_at(pool, {kPart, kPart + 16_MiB}, kCompute);
  ASSERT_TRUE(placed);
  pool.free(placed->chunk, Tick{kCompute, 1});
  const auto other = pool.try_allocate(16_MiB, kCompute);
  ASSERT_TRUE(other);
  EXPECT_LT(other->range.end, kPart);
  EXPECT_TRUE(take_at(pool, {kPart, kPart + 16_MiB}, kCompute));
  pool.verify();
}

TEST(PlacedPart, ServesOthersWhenTheyAskForIt) {
  Pool pool = make_pool(16_MiB);
  const auto placed = take_at(pool, {kPart, kPart + 16_MiB}, kCompute);
  ASSERT_TRUE(placed);
  EXPECT_FALSE(pool.try_allocate(4_MiB, kCompute, /*anywhere=*/true));
  pool.free(placed->chunk, Tick{kCompute, 1});
  EXPECT_FALSE(pool.try_allocate(4_MiB, kCompute));
  const auto other = pool.try_allocate(4_MiB, kCompute, /*anywhere=*/true);
  ASSERT_TRUE(other);
  EXPECT_GE(other->range.begin, kPart);
  pool.verify();
}

TEST(PlacedPart, OwesTheWaitsOfWhoeverWasThere) {
  Pool pool = make_pool();
  const auto first = take_at(pool, {kPart, kPart + 4_MiB}, kCompute);
  const auto second = take_at(pool, {kPart + 4_MiB, kPart + 8_MiB}, kCompute);
  ASSERT_TRUE(first && second);
  pool.free(first->chunk, Tick{kCompute, 5});
  pool.free(second->chunk, Tick{kCompute, 7});
  const auto across = pool.try_allocate_at({kPart + 2_MiB, kPart + 6_MiB}, kCopy);
  ASSERT_TRUE(across);
  ASSERT_EQ(across->waits.size(), 1U);
  EXPECT_EQ(across->waits[0].value, 7U);
  pool.verify();
}

TEST(PlacedPart, GivesMemoryThatIsFreeToTheOtherPart) {
  Pool pool = make_pool(16_MiB);
  const auto placed = take_at(pool, {kPart, kPart + 16_MiB}, kCompute);
  ASSERT_TRUE(placed);
  pool.free(placed->chunk, Tick{kCompute, 1});
  const auto remap = pool.plan_remap(4_MiB);
  ASSERT_TRUE(remap);
  EXPECT_LT(remap->commit.end, kPart);
  EXPECT_EQ(remap->wait_for.size(), 1U);
  pool.apply_remap(*remap);
  EXPECT_TRUE(pool.try_allocate(4_MiB, kCompute));
  pool.verify();
}

TEST(PlacedPart, NamesWhoCanGiveMemoryToAPlace) {
  Pool pool = make_pool(16_MiB);
  const auto placed = take_at(pool, {kPart, kPart + 8_MiB}, kCompute);
  const auto open = pool.try_allocate(8_MiB, kCompute);
  ASSERT_TRUE(placed && open);
  pool.free(placed->chunk, Tick{kCompute, 1});
  pool.free(open->chunk, std::span<const Tick>());
  const auto donors = pool.find_donors(8_MiB, {kPart, kPart + 4_MiB});
  ASSERT_TRUE(donors);
  EXPECT_THAT(donors->decommit, ElementsAre(Range{0_B, 8_MiB}));  // complete ones first
  EXPECT_TRUE(donors->wait_for.empty() && donors->commit.empty());
  EXPECT_FALSE(pool.find_donors(16_MiB, {kPart, kPart + 4_MiB}));
}

// Both kinds of requests mixed, over two streams, with memory running short: the laws hold after each.
TEST(PlacedPart, KeepsTheLawsOfThePoolWhateverComes) {
  std::mt19937 random(3);
  Pool pool = make_pool(48_MiB);
  struct Held {
    ChunkId chunk;
    Range range;
  };
  std::vector<Held> held;
  std::uint64_t tick = 1;
  int at_places = 0, elsewhere = 0;
  for (int round = 0; round < 4000; ++round) {
    const StreamId on = random() % 4 == 0 ? kCopy : kCompute;
    const Bytes size = 512_B * static_cast<std::int64_t>(1 + random() % 8192);
    const Bytes begin = kPart + 512_B * static_cast<std::int64_t>(random() % 65536);
    switch (random() % 8) {
      case 0: case 1: case 2:
        if (const auto grant = take_at(pool, {begin, begin + size}, on)) {
          EXPECT_EQ(grant->range, (Range{begin, begin + size}));
          held.push_back({grant->chunk, grant->range});
          ++at_places;
        }
        break;
      case 3: case 4:
        if (const auto grant = pool.try_allocate(size, on, random() % 2 == 0)) {
          held.push_back({grant->chunk, grant->range});
          ++elsewhere;
        }
        break;
      case 5:
        pool.note_done({kCompute, tick / 2});
        if (random() % 8 == 0) (void)pool.trim();
        break;
      default:
        if (held.empty()) break;
        std::swap(held[random() % held.size()], held.back());
        pool.free(held.back().chunk, Tick{on, ++tick});
        held.pop_back();
    }
    pool.verify();
    ASSERT_LE(pool.reserved(), pool.limit());
    for (std::size_t a = 0; a + 1 < held.size(); ++a) ASSERT_FALSE(held[a].range.overlaps(held.back().range));
  }
  EXPECT_GT(at_places, 100);
  EXPECT_GT(elsewhere, 100);
}

}  // namespace
}  // namespace spillway
