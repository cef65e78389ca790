// The arena on a simulated card: the clock is virtual, so "still running" and "done" are exact.
#include "arena/arena.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/fake/fake_device.h"

namespace spillway {
namespace {

Card small_card() {
  Card card = find_card("h200");
  card.memory = 64_MiB;
  card.granule = 1_MiB;
  return card;
}

// A card that can be told to have no more memory, or to be broken.
class MoodyDevice final : public Device {
 public:
  bool refuses = false;
  bool broken = false;
  bool moves = false;
  std::function<void()> while_committing;
  FakeDevice card{small_card(), {.detect_races = true}};

  [[nodiscard]] const DeviceFacts& facts() const override { return card.facts(); }
  void reserve(Tier tier, Bytes size) override { card.reserve(tier, size); }
  [[nodiscard]] bool try_commit(Tier tier, Range range) override {
    if (const auto act = std::exchange(while_committing, nullptr)) act();
    return !refuses && card.try_commit(tier, range);
  }
  void decommit(Tier tier, Range range) override { card.decommit(tier, range); }
  [[nodiscard]] bool try_move(Tier tier, std::span<const Range> to, std::span<const Range> from, std::span<const Tick> in_use) override {
    return moves && card.try_move(tier, to, from, in_use);
  }
  [[nodiscard]] Bytes committed(Tier tier) const override { return card.committed(tier); }
  [[nodiscard]] std::byte* address(Tier tier, Bytes offset) const override { return card.address(tier, offset); }
  [[nodiscard]] StreamId open_stream() override { return card.open_stream(); }
  void copy(StreamId on, Place to, Place from, Bytes size) override { card.copy(on, to, from, size); }
  void fill(StreamId on, Bytes offset, Bytes size, std::byte value) override { card.fill(on, offset, size, value); }
  [[nodiscard]] Tick record(StreamId on) override { return card.record(on); }
  void wait(StreamId waiter, Tick tick) override { card.wait(waiter, tick); }
  [[nodiscard]] bool query(Tick tick) override {
    if (broken) throw DeviceError("the card fell off the bus");
    return card.query(tick);
  }
  void synchronize(Tick tick) override { card.synchronize(tick); }
  [[nodiscard]] Nanos elapsed(Tick from, Tick to) override { return card.elapsed(from, to); }
  [[nodiscard]] Nanos now() const override { return card.now(); }
};

class ArenaTest : public testing::Test {
 protected:
  static PoolOptions options() { return {.address_space = 16_MiB, .limit = 4_MiB, .granule = 1_MiB, .slab = 0_B}; }

  Block allocate(Bytes size, StreamId on) {
    const std::optional<Block> block = arena.try_allocate(size, on);
    EXPECT_TRUE(block.has_value());
    return block.value_or(Block{});
  }
  // A kernel of a millisecond that writes the block: with detect_races, an unordered one throws.
  Tick use(const Block& block, StreamId on) {
    const MemoryUse write{{Tier::device, block.range.begin}, block.range.length(), /*writes=*/true};
    device.card.compute(on, 1_ms, std::span(&write, 1));
    return device.record(on);
  }
  [[nodiscard]] std::int64_t grants(GrantClass of) const { return arena.stats().grants[static_cast<std::size_t>(of)]; }
  void expect_books_match_the_device() const {
    EXPECT_EQ(arena.stats().reserved, device.committed(Tier::device));
    arena.verify();
  }

  MoodyDevice device;
  Arena arena{device, Tier::device, options()};
  StreamId a = device.open_stream();
  StreamId b = device.open_stream();
};

TEST_F(ArenaTest, CommitsWhatItGrantsAndNoMore) {
  const Block block = allocate(1500_KiB, a);
  EXPECT_GE(block.range.length(), 1500_KiB);
  EXPECT_EQ(device.committed(Tier::device), 2_MiB);
  expect_books_match_the_device();
}

TEST_F(ArenaTest, GivesABlockToTheSameStreamWithoutAnyWait) {
  const Block block = allocate(4_MiB, a);
  arena.free(block, use(block, a));
  const Block again = allocate(4_MiB, a);
  use(again, a);
  EXPECT_EQ(again.range, block.range);
  EXPECT_EQ(grants(GrantClass::same_stream), 1);
}

TEST_F(ArenaTest, GivesABlockInUseToAnotherStreamBehindAWait) {
  const Block block = allocate(4_MiB, a);
  const Tick last = use(block, a);
  arena.free(block, last);
  const Block taken = allocate(4_MiB, b);
  const Tick second = use(taken, b);
  EXPECT_FALSE(device.query(last)) << "the host must not have waited";
  device.synchronize(second);
  EXPECT_GE(device.elapsed(last, second), 1_ms);
  EXPECT_EQ(grants(GrantClass::orderable), 1);
}

TEST_F(ArenaTest, LetsSomebodyElseEnqueueTheWaitsItOwes) {
  std::vector<std::pair<StreamId, Tick>> told;
  arena.set_wait([&](StreamId on, Tick tick) {
    told.emplace_back(on, tick);
    arena.wait(on, tick);
  });
  const Block block = allocate(4_MiB, a);
  const Tick last = use(block, a);
  arena.free(block, last);
  use(allocate(4_MiB, b), b);  // ordered: races are looked for
  EXPECT_EQ(told, (std::vector{std::pair(b, last)}));
}

TEST_F(ArenaTest, AsksTheDeviceBeforeItMakesAStreamWait) {
  const Block block = allocate(4_MiB, a);
  arena.free(block, use(block, a));
  device.card.advance(10_ms);
  use(allocate(4_MiB, b), b);
  EXPECT_EQ(grants(GrantClass::complete), 1);
  EXPECT_EQ(arena.stats().waits_owed, 0);
}

TEST_F(ArenaTest, RemembersAWaitSoThatTheNextBlockPassesFree) {
  const Block first = allocate(2_MiB, a);
  const Block second = allocate(2_MiB, a);
  arena.free(first, use(first, a));
  const Tick last = use(second, a);
  arena.free(second, last);
  arena.wait(b, last);
  use(allocate(2_MiB, b), b);
  use(allocate(2_MiB, b), b);
  EXPECT_EQ(grants(GrantClass::ordered), 2);
}

TEST_F(ArenaTest, ServesFromWhatItHasWhenTheDeviceHasNoMore) {
  const Block block = allocate(2_MiB, a);
  arena.free(block, use(block, a));
  device.refuses = true;
  const Block taken = allocate(2_MiB, b);
  use(taken, b);
  EXPECT_EQ(taken.range, block.range);
  EXPECT_EQ(arena.limit(), options().limit);
  EXPECT_FALSE(arena.try_allocate(2_MiB, b).has_value());
  expect_books_match_the_device();
}

TEST_F(ArenaTest, IsEmptyWhenTheDeviceHasNothingAtAll) {
  device.refuses = true;
  EXPECT_FALSE(arena.try_allocate(1_MiB, a).has_value());
  EXPECT_EQ(arena.stats().reserved, 0_B);
  expect_books_match_the_device();
}

// before   | free | used | free | used |              limit 4 MiB
// after           | used |      | used | new  new |   the free granules moved behind the others
TEST_F(ArenaTest, MovesFreeGranulesTogetherWhenBytesSufficeAndNoHoleDoes) {
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(1_MiB, a));
  arena.free(blocks[0], use(blocks[0], a));
  arena.free(blocks[2], use(blocks[2], b));
  const Block large = allocate(2_MiB, b);
  use(large, b);
  EXPECT_EQ(device.committed(Tier::device), 4_MiB);
  EXPECT_FALSE(large.range.overlaps(blocks[1].range) || large.range.overlaps(blocks[3].range));
  expect_books_match_the_device();
}

// |a|b|c|d|   b and d are still written on one stream when another wants two granules in one piece
TEST_F(ArenaTest, MovesGranulesThatAreStillInUseWithoutWaitingWhereTheDeviceCan) {
  device.moves = true;
  const StreamId first = device.open_stream(), second = device.open_stream();
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(1_MiB, first));
  for (const int at : {1, 3}) arena.free(blocks[static_cast<std::size_t>(at)], use(blocks[static_cast<std::size_t>(at)], first));
  const Nanos before = device.now();

  const Block both = allocate(2_MiB, second);
  EXPECT_LT(device.now() - before, 1_ms);  // of the virtual clock: nobody waited for the kernels
  EXPECT_EQ(arena.remaps(), 1);
  expect_books_match_the_device();
  (void)use(both, second);  // ordered after them, or this is a race

  arena.free(both, device.record(second));
  EXPECT_EQ(arena.trim(/*wait=*/true), 2_MiB);
  expect_books_match_the_device();
}

TEST_F(ArenaTest, LetsGoOfGranulesThatTheDeviceTookAndDidNotGiveBack) {
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(1_MiB, a));
  arena.free(blocks[0], use(blocks[0], a));
  arena.free(blocks[2], use(blocks[2], a));
  device.refuses = true;
  EXPECT_FALSE(arena.try_allocate(2_MiB, a).has_value());
  expect_books_match_the_device();
  device.refuses = false;
  allocate(2_MiB, a);
  expect_books_match_the_device();
}

TEST_F(ArenaTest, IsEmptyWhenNothingHelps) {
  allocate(3_MiB, a);
  EXPECT_FALSE(arena.try_allocate(2_MiB, a).has_value());
  EXPECT_FALSE(arena.try_allocate(5_MiB, a).has_value());
  expect_books_match_the_device();
}

TEST_F(ArenaTest, TrimsWhatIsDoneAndKeepsWhatIsNot) {
  const Block done = allocate(2_MiB, a);
  const Block running = allocate(2_MiB, b);
  arena.free(done, use(done, a));
  device.card.advance(10_ms);
  arena.free(running, use(running, b));
  EXPECT_EQ(arena.trim(), 2_MiB);
  EXPECT_EQ(device.committed(Tier::device), 2_MiB);
  device.card.advance(10_ms);
  EXPECT_EQ(arena.trim(), 2_MiB);
  expect_books_match_the_device();
}

// For a run that is played again: others answer, and who waits asks nobody.
TEST_F(ArenaTest, WhetherWorkIsDoneIsAskedWhereItIsSet) {
  int asked = 0;
  bool done = false;
  arena.set_ask([&](Tick tick) {
    ++asked;
    device.synchronize(tick);
    return done;
  });
  const Block block = allocate(2_MiB, a);
  arena.free(block, use(block, a));
  EXPECT_EQ(arena.trim(), 0_B);
  EXPECT_EQ(asked, 1);
  done = true;
  EXPECT_EQ(arena.trim(), 2_MiB);
  EXPECT_EQ(asked, 2);

  const Block other = allocate(2_MiB, a);
  arena.free(other, use(other, a));
  const int before = asked;
  EXPECT_EQ(arena.trim(/*wait=*/true), 2_MiB);
  EXPECT_EQ(asked, before);
}

TEST_F(ArenaTest, NamesTheCheapestWindowToEvict) {
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(1_MiB, a));
  const auto window = arena.find_window(2_MiB, [&](ChunkId chunk) { return chunk == blocks[1].chunk ? 10.0 : 1.0; });
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(window->evict, (std::vector<ChunkId>{blocks[2].chunk, blocks[3].chunk}));
  EXPECT_EQ(window->cost, 2.0);
}

TEST_F(ArenaTest, LosesNothingWhenTheDeviceFailsInTheMiddle) {
  const Block block = allocate(4_MiB, a);
  arena.free(block, use(block, a));
  device.broken = true;
  EXPECT_THROW((void)arena.try_allocate(4_MiB, b), DeviceError);
  device.broken = false;
  EXPECT_EQ(arena.stats().live, 0_B);
  use(allocate(4_MiB, b), b);
}

TEST_F(ArenaTest, GrowsNoMoreAfterTheLimitWasLowered) {
  const Block block = allocate(1_MiB, a);
  arena.set_limit(2_MiB);
  EXPECT_TRUE(arena.try_allocate(1_MiB, a).has_value());
  EXPECT_FALSE(arena.try_allocate(1_MiB, a).has_value());
  arena.free(block, std::span<const Tick>{});
  EXPECT_TRUE(arena.try_allocate(1_MiB, b).has_value());
}

TEST(Arena, RefusesAGranuleThatTheDeviceCannotCommit) {
  MoodyDevice device;
  const PoolOptions odd{.address_space = 16_MiB, .limit = 4_MiB, .granule = 512_KiB};
  EXPECT_THROW(Arena(device, Tier::device, odd), InvariantError);
}

// What was taken ahead of need serves the next who asks, and the limit holds for it as for everybody.
TEST(ArenaGrowth, TakesGranulesAheadOfNeedUpToTheLimit) {
  FakeDevice card(small_card());
  const StreamId stream = card.open_stream();
  Arena arena(card, Tier::host, {.address_space = 16_MiB, .limit = 4_MiB, .granule = 1_MiB, .slab = 0_B, .dear_memory = true});
  const auto used = arena.try_allocate(1_MiB, stream);
  ASSERT_TRUE(used.has_value());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(arena.try_grow());
  EXPECT_FALSE(arena.try_grow());
  EXPECT_EQ(card.committed(Tier::host), 4_MiB);
  arena.verify();
  const std::uint64_t commits = arena.commits();
  EXPECT_TRUE(arena.try_allocate(3_MiB, stream).has_value());
  EXPECT_EQ(arena.commits(), commits);
}

TEST(ArenaGrowth, EndsWhereTheDeviceHasNoMore) {
  MoodyDevice device;
  Arena arena(device, Tier::host, {.address_space = 16_MiB, .limit = 4_MiB, .granule = 1_MiB, .slab = 0_B, .dear_memory = true});
  EXPECT_TRUE(arena.try_grow());
  device.refuses = true;
  EXPECT_FALSE(arena.try_grow());
  arena.verify();
  EXPECT_EQ(device.committed(Tier::host), 1_MiB);
}

TEST(ArenaGrowth, NobodyWaitsForItWhoFindsWhatItWantsInMemoryThatIsThere) {
  MoodyDevice device;
  const StreamId stream = device.open_stream();
  Arena arena(device, Tier::host, {.address_space = 16_MiB, .limit = 4_MiB, .granule = 1_MiB, .slab = 0_B, .dear_memory = true});
  EXPECT_TRUE(arena.try_grow());
  std::optional<Block> there, more;
  device.while_committing = [&] {
    there = arena.try_allocate_there(1_MiB, stream);
    more = arena.try_allocate_there(1_MiB, stream);
  };
  EXPECT_TRUE(arena.try_grow());
  EXPECT_TRUE(there.has_value());
  EXPECT_FALSE(more.has_value());  // it comes with this growth
  EXPECT_TRUE(arena.try_allocate_there(1_MiB, stream).has_value());
  arena.verify();
}

TEST(ArenaGrowth, WhoHasToTakeMoreWaitsForItsEnd) {
  MoodyDevice device;
  const StreamId stream = device.open_stream();
  Arena arena(device, Tier::host, {.address_space = 16_MiB, .limit = 2_MiB, .granule = 1_MiB, .slab = 0_B, .dear_memory = true});
  std::optional<Block> block;
  std::jthread other;
  device.while_committing = [&] { other = std::jthread([&] { block = arena.try_allocate(2_MiB, stream); }); };
  EXPECT_TRUE(arena.try_grow());
  other.join();
  EXPECT_TRUE(block.has_value());
  EXPECT_EQ(device.committed(Tier::host), 2_MiB);
  arena.verify();
}

TEST(ArenaGrowth, OneThatBreaksLeavesTheArenaToOthers) {
  MoodyDevice device;
  const StreamId stream = device.open_stream();
  Arena arena(device, Tier::host, {.address_space = 16_MiB, .limit = 4_MiB, .granule = 1_MiB, .slab = 0_B, .dear_memory = true});
  device.while_committing = [] { throw DeviceError("the card fell off the bus"); };
  EXPECT_THROW((void)arena.try_grow(), DeviceError);
  EXPECT_TRUE(arena.try_allocate(1_MiB, stream).has_value());
  arena.verify();
}

}  // namespace
}  // namespace spillway
