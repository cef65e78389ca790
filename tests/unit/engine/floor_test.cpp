// What cannot leave is in the floor, and who lies apart: storages the interpreter holds by name, and those lent outside.
#include <array>

#include "unit/engine/engine_fixture.h"

namespace spillway {
namespace {

class FloorTest : public EngineTest {
 protected:
  void name(Storage& storage) {
    const auto lock = engine.lock();
    engine.note_name(storage.record);
  }

  // One op that reads the storage and makes nothing.
  void look_at(Storage& storage) {
    const Use use{storage.record, false};
    auto lock = engine.lock();
    ASSERT_FALSE(engine.acquire(std::span(&use, 1), device.caller_stream(), lock).has_value());
    (void)engine.begin_op();
    const Bytes inputs = engine.stays(*storage.record) ? 0_B : storage.record->block.range.length();
    engine.note_op({.inputs = inputs, .outputs = {}, .transient = {}}, "look", lock);
    engine.end_op();
    engine.release(std::span(&use, 1));
  }

  void lend_apart(Storage& storage) {
    auto lock = engine.lock();
    engine.set_apart(storage.record, lock);
    const Use use{storage.record, false};
    ASSERT_FALSE(engine.acquire(std::span(&use, 1), device.caller_stream(), lock).has_value());
    engine.lend(storage.record, lock);
    engine.release(std::span(&use, 1));
  }
};

TEST_F(FloorTest, CountsWhatIsNamedAsLongAsItIs) {
  Storage& named = make(256_KiB, 1);
  Storage& other = make(128_KiB, 2);
  owner.named_now = [&](Storage& asked) { return &asked == &named; };
  name(named);
  look_at(other);
  EXPECT_EQ(engine.stats().floor, 384_KiB);
  EXPECT_EQ(engine.stats().floor_op.cannot_leave, 256_KiB);
}

TEST_F(FloorTest, DoesNotCountWhatHasLostItsName) {
  Storage& named = make(256_KiB, 1);
  Storage& other = make(128_KiB, 2);
  name(named);
  look_at(other);  // asks, and nobody says yes
  EXPECT_EQ(engine.stats().floor, 256_KiB);  // when it was made: new memory cannot leave
}

TEST_F(FloorTest, CountsAnArgumentOnceWhetherNamedOrNot) {
  Storage& named = make(256_KiB, 1);
  owner.named_now = [](Storage&) { return true; };
  name(named);
  look_at(named);
  EXPECT_EQ(engine.stats().floor, 256_KiB);
}

TEST_F(FloorTest, CountsNewMemoryThatNobodyHasShown) {
  ASSERT_NE(engine.try_allocate(192_KiB, device.caller_stream()), nullptr);
  ASSERT_NE(engine.try_allocate(128_KiB, device.caller_stream()), nullptr);
  EXPECT_EQ(engine.stats().floor, 320_KiB);
  EXPECT_EQ(engine.stats().floor_op.name, "a new tensor");
}

TEST_F(FloorTest, WhoWouldNotLeaveIsAskedAgainAfterARefusal) {
  Storage& named = make(512_KiB, 1);
  make(384_KiB, 2);
  owner.named_now = [&](Storage& asked) { return &asked == &named; };
  ASSERT_EQ(engine.try_allocate(768_KiB, device.caller_stream()), nullptr);
  owner.named_now = nullptr;
  EXPECT_NE(engine.try_allocate(768_KiB, device.caller_stream()), nullptr);
}

TEST_F(FloorTest, SaysThatANameIsInTheWay) {
  Storage& named = make(512_KiB, 1);
  make(384_KiB, 2);
  owner.named_now = [&](Storage& asked) { return &asked == &named; };
  EXPECT_EQ(engine.try_allocate(768_KiB, device.caller_stream()), nullptr);
  const auto lock = engine.lock();
  const Shortage why = engine.shortage(768_KiB);
  EXPECT_EQ(why.named, 512_KiB);
  EXPECT_EQ(why.stay(), 512_KiB);
  EXPECT_EQ(why.evictable, 0_B);
}

TEST_F(FloorTest, SaysThatThereIsNoRoomBelow) {
  EngineOptions small = options();
  small.host_limit = 64_KiB;
  HostDevice other{HostOptions{.granule = kGranule}};
  Engine strict{other, owner, other.caller_stream(), small};
  Storage storage;
  storage.record = strict.try_allocate(512_KiB, other.caller_stream());
  storage.data = storage.record->data;
  {
    const auto lock = strict.lock();
    strict.adopt(storage.record, &storage);
  }
  EXPECT_EQ(strict.try_allocate(768_KiB, other.caller_stream()), nullptr);
  const auto lock = strict.lock();
  const Shortage why = strict.shortage(768_KiB);
  EXPECT_EQ(why.homeless, 512_KiB);
  EXPECT_EQ(why.host_limit, 64_KiB);
  EXPECT_FALSE(why.file);
}

TEST_F(FloorTest, TellsWhatOfAnOpsArgumentsIsStillToCome) {
  Storage& first = make(512_KiB, 1);
  Storage& second = make(448_KiB, 2);
  Storage& third = make(448_KiB, 3);
  const std::array uses{Use{first.record, false}, Use{second.record, false}, Use{third.record, false}, Use{third.record, false}};
  auto lock = engine.lock();
  const auto why = engine.acquire(uses, device.caller_stream(), lock);
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->coming + why->pinned, 1408_KiB);
}

// granules      |    |    |    |    |    |    |    |    |     64 KiB each, a budget of sixteen
// lent          #####     #####     #####     #####           80 KiB each, among others that can leave
// lent, apart                                                 side by side: 320 KiB, and 704 left in one piece
TEST_F(FloorTest, LentStoragesLieSideBySideAndLeaveTheRestInOnePiece) {
  std::array<Storage*, 4> lent{};
  for (std::size_t i = 0; i < lent.size(); ++i) {
    lent[i] = &make(80_KiB, static_cast<std::uint8_t>(i + 1));
    make(80_KiB, 9);
  }
  for (Storage* storage : lent) lend_apart(*storage);
  for (std::size_t i = 1; i < lent.size(); ++i) EXPECT_EQ(lent[i]->data, lent[i - 1]->data + (80 << 10));
  for (std::size_t i = 0; i < lent.size(); ++i) EXPECT_TRUE(holds(*lent[i], 80_KiB, static_cast<std::uint8_t>(i + 1)));
  EXPECT_NE(engine.try_allocate(704_KiB, device.caller_stream()), nullptr);
  EXPECT_EQ(engine.stats().violations, 0);
}

TEST_F(FloorTest, WhoIsAwayComesHomeToLieApart) {
  Storage& away = make(80_KiB, 1);
  make(1_MiB, 2);
  ASSERT_EQ(away.data, nullptr);
  lend_apart(away);
  ASSERT_NE(away.data, nullptr);
  EXPECT_TRUE(holds(away, 80_KiB, 1));
  EXPECT_GE(away.record->block.range.begin, 48_MiB);  // the last quarter of the addresses
}

TEST_F(FloorTest, WhoIsNamedStaysWhereItsAddressIsKnown) {
  Storage& named = make(80_KiB, 1);
  owner.named_now = [](Storage&) { return true; };
  const std::byte* before = named.data;
  lend_apart(named);
  EXPECT_EQ(named.data, before);
}

}  // namespace
}  // namespace spillway
