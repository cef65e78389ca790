#include "engine/early.h"

#include "plan/policies.h"
#include "unit/engine/engine_fixture.h"

namespace spillway {
namespace {

TEST(LinkTime, IsFreeAgainWhenOpsHaveTakenAsLongAsItsCopies) {
  LinkTime link;
  link.book(30_us);
  EXPECT_EQ(link.ahead(), 30_us);
  link.pass(20_us);
  EXPECT_EQ(link.ahead(), 10_us);
  link.pass(50_us);
  EXPECT_EQ(link.ahead(), 0_ns);
}

// op      |----------|          the copy could run beside the newest op, not before it
// copy    |------|
TEST(LinkTime, WhatIsEnqueuedAfterAnOpRunsBesideIt) {
  LinkTime link;
  link.pass(70_us);
  link.pass(50_us);
  link.book(30_us);
  EXPECT_EQ(link.ahead(), 0_ns);
  link.book(30_us);
  EXPECT_EQ(link.ahead(), 10_us);
}

TEST(EarlyAllowance, IsAQuarterOfWhatLeftLessWhatWasForNothing) {
  EXPECT_EQ(early_allowance(80_MiB, 0_B), 20_MiB);
  EXPECT_EQ(early_allowance(80_MiB, 15_MiB), 5_MiB);
  EXPECT_LT(early_allowance(0_B, 1_MiB), 0_B);
}

constexpr Bytes kSize = 2_MiB;
constexpr int kFit = 8;

// Eight storages fit, and nothing can be made again.
class EarlyTest : public testing::Test {
 protected:
  static EngineOptions planned(double nanos_per_byte = 0) {
    EngineOptions planned;
    planned.budget = kSize * kFit;
    planned.address_space = 1_GiB;
    planned.granule = kGranule;
    planned.alignment = 64_B;
    planned.host_limit = 512_MiB;
    planned.policy = ReactivePolicy::dtr;
    planned.leave = Leave::cheaper;
    planned.plans = find_plan_policy("hybrid");
    planned.plans_at_once = true;
    planned.costs.out_nanos_per_byte = nanos_per_byte;
    return planned;
  }

  Storage& make_in(Engine& in, Bytes size, std::uint8_t fill) {
    Storage& storage = storages_.emplace_back();
    storage.record = in.try_allocate(size, device.caller_stream());
    storage.data = storage.record->data;
    const auto lock = in.lock();
    in.adopt(storage.record, &storage);
    std::memset(storage.data, fill, static_cast<std::size_t>(size.count));
    return storage;
  }

  // Ops of a forward on this storage.
  void run(Engine& in, Storage& on, int ops = 1, bool write = false) {
    const Use use{on.record, write};
    for (int op = 0; op < ops; ++op) {
      auto lock = in.lock();
      in.steer_before({1, 1}, Phase::forward, lock);
      ASSERT_FALSE(in.acquire(std::span(&use, 1), device.caller_stream(), lock).has_value());
      in.release(std::span(&use, 1));
      in.steer_after(std::span(&use, 1), {}, lock);
    }
  }

  static bool holds(const Storage& storage, Bytes size, std::uint8_t fill) {
    return std::all_of(storage.data, storage.data + size.count, [&](std::byte byte) { return byte == std::byte{fill}; });
  }

  Storage* find_copied() {
    const auto found = std::ranges::find_if(storages_, [](const Storage& one) { return one.data != nullptr && one.record->copy; });
    return found == storages_.end() ? nullptr : &*found;
  }

  HostDevice device{HostOptions{.granule = kGranule}};
  TestOwner owner;
  std::deque<Storage> storages_;
};

TEST_F(EarlyTest, WhereAllFitsNothingIsCopied) {
  Engine early{device, owner, device.caller_stream(), planned()};
  for (int i = 0; i < kFit; ++i) (void)make_in(early, kSize, 1);
  run(early, storages_.back(), 100);
  EXPECT_EQ(early.stats().moved_out, 0_B);
}

TEST_F(EarlyTest, OnceManyHadToLeaveAnIdleOneIsCopiedAndStays) {
  Engine early{device, owner, device.caller_stream(), planned()};
  for (int i = 0; i < 3 * kFit; ++i) (void)make_in(early, kSize, static_cast<std::uint8_t>(i));
  const EngineStats before = early.stats();

  run(early, storages_.back(), 100);

  const EngineStats after = early.stats();
  EXPECT_EQ(after.evictions, before.evictions);
  EXPECT_EQ(after.live, before.live);
  EXPECT_EQ(after.moved_out - before.moved_out, kSize * 2 * kFit / 4);  // a quarter of what left
  EXPECT_NE(find_copied(), nullptr);
  EXPECT_FALSE(storages_.back().record->copy);  // it is in use
}

TEST_F(EarlyTest, WhoHasACopyLeavesWithoutOne) {
  Engine early{device, owner, device.caller_stream(), planned()};
  for (int i = 0; i < 3 * kFit; ++i) (void)make_in(early, kSize, static_cast<std::uint8_t>(i));
  run(early, storages_.back(), 100);
  const EngineStats before = early.stats();

  (void)make_in(early, kSize, 99);

  const EngineStats after = early.stats();
  EXPECT_EQ(after.evictions, before.evictions + 1);
  EXPECT_EQ(after.moved_out, before.moved_out);
  EXPECT_EQ(after.left_clean, kSize);
}

TEST_F(EarlyTest, AWriteForgetsTheCopyAndTheNewBytesComeBack) {
  Engine early{device, owner, device.caller_stream(), planned()};
  for (int i = 0; i < 3 * kFit; ++i) (void)make_in(early, kSize, static_cast<std::uint8_t>(i));
  run(early, storages_.back(), 100);
  Storage& copied = *find_copied();

  run(early, copied, 1, /*write=*/true);
  EXPECT_FALSE(copied.record->copy);
  std::memset(copied.data, 77, static_cast<std::size_t>(kSize.count));
  early.evict_all(Leave::move);
  run(early, copied);

  EXPECT_TRUE(holds(copied, kSize, 77));
}

// Storages of several pieces, on a link that needs many ops for one of them.
class EarlyPartTest : public EarlyTest {
 protected:
  static constexpr Bytes kLarge = 40_MiB;

  static EngineOptions slow() {
    EngineOptions slow = planned(/*nanos_per_byte=*/1);
    slow.budget = kLarge * 2 + 8_MiB;
    slow.address_space = 4_GiB;
    slow.host_limit = 2_GiB;
    return slow;
  }

  // One op of a millisecond.
  void pass(Engine& in, Storage& on) {
    const Use use{on.record, false};
    auto lock = in.lock();
    in.steer_before({1, 1}, Phase::forward, lock);
    ASSERT_FALSE(in.acquire(std::span(&use, 1), device.caller_stream(), lock).has_value());
    lock.unlock();
    Record* made = in.try_allocate(1_KiB, device.caller_stream());
    lock.lock();
    auto recipe = std::make_unique<Recipe>();
    recipe->time = 1_ms;
    recipe->outputs = {made};
    in.set_recipe(made, recipe.release());
    in.release(std::span(&use, 1));
    in.steer_after(std::span(&use, 1), std::span(&made, 1), lock);
    lock.unlock();
    EXPECT_TRUE(in.free(made->data));
  }

  // Until a copy ahead of need has begun and is not complete.
  Storage& begin_copy(Engine& in) {
    for (int i = 0; i < 8; ++i) (void)make_in(in, kLarge, static_cast<std::uint8_t>(i));
    Storage& used = make_in(in, 1_KiB, 0);
    const auto begun = [](const Storage& one) { return one.data != nullptr && one.record->read_until.value > 0; };
    for (int op = 0; op < 1000 && std::ranges::none_of(storages_, begun); ++op) pass(in, used);
    return *std::ranges::find_if(storages_, begun);
  }
};

TEST_F(EarlyPartTest, WhoLeavesInTheMiddleOfItsCopyTakesTheRestAlong) {
  Engine early{device, owner, device.caller_stream(), slow()};
  Storage& begun = begin_copy(early);
  ASSERT_FALSE(begun.record->copy);
  const auto fill = std::to_integer<std::uint8_t>(*begun.data);
  const Bytes before = early.stats().moved_out;

  early.evict_all(Leave::move);
  EXPECT_LT(early.stats().moved_out - before, kLarge * 2);  // both leave; of one a piece is there already
  run(early, begun);

  EXPECT_TRUE(holds(begun, kLarge, fill));
}

TEST_F(EarlyPartTest, AWriteInTheMiddleOfACopyLeavesNothingOfTheOldBytes) {
  Engine early{device, owner, device.caller_stream(), slow()};
  Storage& begun = begin_copy(early);

  run(early, begun, 1, /*write=*/true);
  std::memset(begun.data, 77, static_cast<std::size_t>(kLarge.count));
  early.evict_all(Leave::move);
  run(early, begun);

  EXPECT_TRUE(holds(begun, kLarge, 77));
}

TEST_F(EarlyPartTest, ADeathInTheMiddleOfACopyGivesItsPlaceBack) {
  Engine early{device, owner, device.caller_stream(), slow()};
  Storage& begun = begin_copy(early);
  const Bytes size = begun.record->size;
  const Bytes live = early.stats().live;

  EXPECT_TRUE(early.free(begun.data));
  early.end_step();

  EXPECT_EQ(early.stats().live, live - size);
}

}  // namespace
}  // namespace spillway
