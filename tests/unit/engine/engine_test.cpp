// The engine over real host memory, with storages that are only a pointer: who leaves, who comes back, with which bytes.
#include "engine/engine.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <map>
#include <stdexcept>
#include <thread>

#include "unit/engine/engine_fixture.h"

namespace spillway {
namespace {

TEST_F(EngineTest, LetsTheLongestUnusedLeaveWhenMemoryIsShort) {
  Storage& first = make(384_KiB, 1);
  Storage& second = make(384_KiB, 2);
  use(second);
  use(first);
  use(first);
  make(384_KiB, 3);
  EXPECT_NE(first.data, nullptr);
  EXPECT_EQ(second.data, nullptr);
}

// Every look for victims passes all storages: among many, one look frees more than the one who asks.
TEST_F(EngineTest, AmongManyThousandsMoreLeaveAtOnce) {
  for (const std::int64_t small : {100, 33'000}) {
    EngineOptions large = options();
    large.budget = 64_MiB, large.address_space = 256_MiB;
    HostDevice other(HostOptions{.granule = kGranule});
    Engine engine{other, owner, other.caller_stream(), large};
    std::deque<Storage> storages;
    const auto make = [&](Bytes size) {
      Storage& storage = storages.emplace_back();
      storage.record = engine.try_allocate(size, other.caller_stream());
      storage.data = storage.record->data;
      const auto lock = engine.lock();
      engine.adopt(storage.record, &storage);
    };
    for (std::int64_t i = 0; i < small; ++i) make(512_B);
    while (engine.stats().evictions == 0) make(256_KiB);
    EXPECT_EQ(engine.stats().evictions, small == 100 ? 1 : 2) << small;
  }
}

TEST_F(EngineTest, BringsBackTheSameBytes) {
  Storage& first = make(512_KiB, 1);
  make(512_KiB, 2);
  make(512_KiB, 3);
  ASSERT_EQ(first.data, nullptr);
  use(first);
  ASSERT_NE(first.data, nullptr);
  EXPECT_TRUE(holds(first, 512_KiB, 1));
}

// budget          1 MiB   ########
// what is there   ####            first, unused for longer
//                     ####        second
// outside         ....            512 KiB taken by somebody else: first leaves before they are taken
TEST_F(EngineTest, MakesRoomForWhatIsTakenOutsideBeforeItIsTaken) {
  Storage& first = make(512_KiB, 1);
  Storage& second = make(512_KiB, 2);
  use(second);
  EXPECT_TRUE(engine.try_set_outside(512_KiB, /*may_evict=*/true));
  EXPECT_LE(device.committed(Tier::device), 512_KiB);
  EXPECT_EQ(first.data, nullptr);
  EXPECT_NE(second.data, nullptr);
  EXPECT_EQ(engine.stats().violations, 0);
}

TEST_F(EngineTest, RefusesWhatIsTakenOutsideWhenNobodyMayLeaveForIt) {
  Storage& first = make(512_KiB, 1);
  Storage& second = make(512_KiB, 2);
  EXPECT_FALSE(engine.try_set_outside(512_KiB, /*may_evict=*/false));
  EXPECT_NE(first.data, nullptr);
  EXPECT_NE(second.data, nullptr);
  EXPECT_FALSE(engine.try_set_outside(2_MiB, /*may_evict=*/true));
  EXPECT_EQ(engine.stats().violations, 0);
  use(first);
  use(second);
  EXPECT_TRUE(holds(first, 512_KiB, 1) && holds(second, 512_KiB, 2));
}

TEST_F(EngineTest, OverwritesWhatHasLeftAndBringsItBackWhole) {
  EngineOptions poisoned = options();
  poisoned.poison = true;
  HostDevice other(HostOptions{.granule = kGranule});
  Engine strict{other, owner, other.caller_stream(), poisoned};
  Storage storage;
  storage.record = strict.try_allocate(512_KiB, other.caller_stream());
  storage.data = storage.record->data;
  auto lock = strict.lock();
  strict.adopt(storage.record, &storage);
  std::memset(storage.data, 7, 512 * 1024);
  lock.unlock();
  const std::byte* old = storage.data;
  strict.evict_all(Leave::move);
  ASSERT_EQ(storage.data, nullptr);
  EXPECT_TRUE(std::all_of(old, old + 512 * 1024, [](std::byte byte) { return byte == std::byte{0xA5}; }));
  lock.lock();
  const Use use{storage.record, false};
  ASSERT_FALSE(strict.acquire(std::span(&use, 1), other.caller_stream(), lock).has_value());
  strict.release(std::span(&use, 1));
  EXPECT_TRUE(holds(storage, 512_KiB, 7));
}

TEST_F(EngineTest, NeverTakesMoreThanTheBudget) {
  for (std::uint8_t i = 0; i < 40; ++i) {
    make(96_KiB + 4_KiB * (i % 7), i);
    use(storages_[i / 2]);
    ASSERT_LE(device.committed(Tier::device), kBudget);
  }
  for (std::uint8_t i = 0; i < 40; ++i) {
    use(storages_[i]);
    EXPECT_TRUE(holds(storages_[i], 96_KiB + 4_KiB * (i % 7), i)) << int{i};
  }
  EXPECT_EQ(engine.stats().violations, 0);
}

TEST_F(EngineTest, LeavesWithoutACopyWhenTheCopyBelowIsStillGood) {
  Storage& first = make(512_KiB, 1);
  make(512_KiB, 2);
  make(512_KiB, 3);
  use(first);
  const Bytes moved = engine.stats().moved_out;
  use(storages_[1]);
  use(storages_[2]);
  EXPECT_EQ(first.data, nullptr);
  EXPECT_GT(engine.stats().left_clean, 0_B);
  use(first);
  EXPECT_TRUE(holds(first, 512_KiB, 1));
  EXPECT_LT(engine.stats().moved_out - moved, 3 * 512_KiB);
}

TEST_F(EngineTest, ForgetsTheCopyOfWhatIsWritten) {
  Storage& first = make(512_KiB, 1);
  make(512_KiB, 2);
  make(512_KiB, 3);
  use(first, /*write=*/true);
  std::memset(first.data, 9, 512 << 10);
  use(storages_[1]);
  use(storages_[2]);
  ASSERT_EQ(first.data, nullptr);
  use(first);
  EXPECT_TRUE(holds(first, 512_KiB, 9));
}

TEST_F(EngineTest, SaysWhatIsInTheWayWhenNothingCanLeave) {
  Storage& first = make(512_KiB, 1);
  Storage& second = make(384_KiB, 2);
  const std::array uses{Use{first.record, false}, Use{second.record, false}};
  auto lock = engine.lock();
  ASSERT_FALSE(engine.acquire(uses, device.caller_stream(), lock).has_value());
  lock.unlock();
  EXPECT_EQ(engine.try_allocate(512_KiB, device.caller_stream()), nullptr);
  lock.lock();
  const Shortage why = engine.shortage(512_KiB);
  EXPECT_EQ(why.asked, 512_KiB);
  EXPECT_EQ(why.pinned, 896_KiB);
  EXPECT_EQ(why.evictable, 0_B);
  engine.release(uses);
}

TEST_F(EngineTest, DoesNotTouchAStorageThatWillNotLetGo) {
  Storage& first = make(512_KiB, 1);
  make(448_KiB, 2);
  owner.stubborn = true;
  EXPECT_EQ(engine.try_allocate(256_KiB, device.caller_stream()), nullptr);
  EXPECT_NE(first.data, nullptr);
  owner.stubborn = false;
  use(first);
  EXPECT_NE(engine.try_allocate(256_KiB, device.caller_stream()), nullptr);
}

TEST_F(EngineTest, AsksForNamesWithoutItsLockAndKeepsWhatHasOneOrIsShownMeanwhile) {
  Storage& named = make(320_KiB, 1);
  Storage& shown = make(320_KiB, 2);
  Storage& other = make(320_KiB, 3);
  owner.named_now = [&](Storage& asked) {
    const auto lock = engine.lock();  // whoever can tell may be waiting for it
    if (&asked == &shown) ++shown.record->shown;
    return &asked == &named;
  };
  EXPECT_NE(engine.try_allocate(256_KiB, device.caller_stream()), nullptr);
  EXPECT_TRUE(named.data != nullptr && shown.data != nullptr && other.data == nullptr);
}

TEST_F(EngineTest, KeepsWhatIsHeldForLife) {
  Storage& first = make(512_KiB, 1);
  {
    const auto lock = engine.lock();
    engine.hold_for_life(first.record);
  }
  make(448_KiB, 2);
  make(448_KiB, 3);
  EXPECT_NE(first.data, nullptr);
}

TEST_F(EngineTest, WhatIsLentStaysUntilTheLastLoanEndsAndLeavesAsItWasWritten) {
  Storage& first = make(512_KiB, 1);
  lend(first);
  lend(first);
  make(448_KiB, 2);
  make(448_KiB, 3);
  EXPECT_NE(first.data, nullptr);
  end_loan(first);
  make(448_KiB, 4);
  EXPECT_NE(first.data, nullptr);
  std::memset(first.data, 9, static_cast<std::size_t>((512_KiB).count));
  end_loan(first);
  make(512_KiB, 5);
  ASSERT_EQ(first.data, nullptr);
  use(first);
  EXPECT_TRUE(holds(first, 512_KiB, 9));
}

TEST_F(EngineTest, WhatIsLentForgetsItsCopyBelow) {
  Storage& first = make(512_KiB, 1);
  make(512_KiB, 2);
  make(512_KiB, 3);
  use(first);  // home again, its copy below still good
  lend(first);
  std::memset(first.data, 9, static_cast<std::size_t>((512_KiB).count));
  end_loan(first);
  engine.evict_all(Leave::move);
  use(first);
  EXPECT_TRUE(holds(first, 512_KiB, 9));
}

TEST_F(EngineTest, AfterATimeUnseenNoCopyBelowIsGood) {
  Storage& first = make(512_KiB, 1);
  make(512_KiB, 2);
  make(512_KiB, 3);
  use(first);
  std::memset(first.data, 9, static_cast<std::size_t>((512_KiB).count));
  engine.trust_nothing();
  engine.evict_all(Leave::move);
  use(first);
  EXPECT_TRUE(holds(first, 512_KiB, 9));
}

// What was made before or during a loan is never rebuilt from bytes that may have changed in it; what is made after is.
TEST_F(EngineTest, ALoanMakesAnotherIngredientOfAStorage) {
  Storage& source = make(64_KiB, 1);
  std::array<Recipe, 3> recipes;
  const auto made_now = [&](Recipe& recipe, std::uint32_t epoch) -> Storage& {
    Storage& made = make(64_KiB, 2);
    recipe.ingredients.push_back({source.record, epoch});
    recipe.outputs = {made.record};
    const auto lock = engine.lock();
    engine.set_recipe(made.record, &recipe);
    return made;
  };
  Storage& before = made_now(recipes[0], source.record->epoch);
  lend(source);
  EXPECT_TRUE(source.record->exposed());
  Storage& during = made_now(recipes[1], Ingredient::kUntrusted);
  end_loan(source);
  EXPECT_FALSE(source.record->exposed());
  Storage& after = made_now(recipes[2], source.record->epoch);

  engine.evict_all(Leave::replay);

  EXPECT_EQ(before.record->residence, Residence::away);
  EXPECT_EQ(during.record->residence, Residence::away);
  EXPECT_EQ(after.record->residence, Residence::dropped);
  owner.rebuild_now = [&](Record& record) {
    Record* made = engine.try_allocate(record.size, device.caller_stream());
    const auto lock = engine.lock();
    engine.finish_rebuild(&record, made, {});
  };
  use(after);
  const auto lock = engine.lock();
  for (Storage* made : {&before, &during, &after}) engine.clear_recipes(made->record);
  std::vector<Recipe*> dying;
  engine.take_dying(dying);
}

// The thread that was bringing it home is not there in the child, which must not wait for it.
TEST_F(EngineTest, AForkedChildRebuildsWhatAnotherThreadWasRebuilding) {
  Storage& source = make(64_KiB, 1);
  Storage& made = make(64_KiB, 2);
  Recipe recipe;
  drop(made, source, recipe);
  ASSERT_EQ(made.record->residence, Residence::dropped);
  const auto rebuild = [&](Record& record) {
    Record* fresh = engine.try_allocate(record.size, device.caller_stream());
    const auto lock = engine.lock();
    engine.finish_rebuild(&record, fresh, {});
  };
  std::promise<void> begun, forked;
  owner.rebuild_now = [&](Record& record) {
    begun.set_value();
    forked.get_future().wait();
    rebuild(record);
  };
  std::thread other([&] { use(made); });
  begun.get_future().wait();
  engine.before_fork();
  const pid_t child = fork();
  engine.after_fork(child == 0);
  if (child == 0) {
    alarm(100);  // ends one that waits for ever
    owner.rebuild_now = rebuild;
    use(made);
    _exit(made.data != nullptr ? 0 : 1);
  }
  forked.set_value();
  other.join();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto lock = engine.lock();
  engine.clear_recipes(made.record);
  std::vector<Recipe*> dying;
  engine.take_dying(dying);
}

TEST_F(EngineTest, ALoanOutlivesItsStorage) {
  Storage& first = make(512_KiB, 1);
  lend(first);
  ASSERT_TRUE(engine.free(first.data));
  EXPECT_EQ(engine.stats().live, 0_B);
  make(512_KiB, 2);
  end_loan(first);
  EXPECT_EQ(engine.stats().live, 512_KiB);
  EXPECT_EQ(engine.most_available(), kBudget);
}

// region     begin                        end
// kept             ########################     weight, 256 KiB
// made                 ########                 128 KiB, dead again before the end
//                           ################... 128 KiB that a storage shows later
// floor                256 + 128 + 128, though no op was seen
TEST_F(EngineTest, CountsAllThatARegionKeepsAndMakesAsOneOp) {
  Storage& weight = make(256_KiB, 1);
  Storage& other = make(256_KiB, 2);
  {
    const auto lock = engine.lock();
    engine.begin_region();
    engine.keep(weight.record);
  }
  const Record* dies = engine.try_allocate(128_KiB, device.caller_stream());
  Record* stays = engine.try_allocate(128_KiB, device.caller_stream());
  ASSERT_TRUE(engine.free(dies->data));

  EXPECT_EQ(engine.stats().floor, 512_KiB);
  EXPECT_EQ(engine.stats().floor_op.inputs, 256_KiB);
  EXPECT_EQ(engine.stats().floor_op.transient, 256_KiB);
  EXPECT_EQ(engine.stats().floor_op.cannot_leave, 0_B);
  engine.evict_all(Leave::move);
  EXPECT_NE(weight.data, nullptr);
  EXPECT_EQ(other.data, nullptr);

  Storage shown{.record = stays, .data = stays->data};
  {
    const auto lock = engine.lock();
    engine.adopt(stays, &shown);
    engine.end_region(std::array{weight.record});
  }
  engine.evict_all(Leave::move);
  EXPECT_EQ(weight.data, nullptr);
  EXPECT_EQ(shown.data, nullptr);
  make(384_KiB, 3);
  EXPECT_EQ(engine.stats().floor, 512_KiB);  // the region is over
  engine.died(stays);
}

TEST_F(EngineTest, WhatDiesInARegionThatKeptItIsNoLongerCounted) {
  const Storage& input = make(256_KiB, 1);
  const std::array kept{input.record};
  {
    const auto lock = engine.lock();
    engine.begin_region();
    engine.keep(input.record);
  }
  ASSERT_TRUE(engine.free(input.data));
  ASSERT_NE(engine.try_allocate(192_KiB, device.caller_stream()), nullptr);
  {
    const auto lock = engine.lock();
    engine.end_region(kept);
  }
  EXPECT_EQ(engine.stats().floor, 256_KiB);
  EXPECT_EQ(engine.most_available(), kBudget - 192_KiB);
}

TEST_F(EngineTest, AStorageThatDiesAwayGivesItsPlaceBelowBack) {
  for (int round = 0; round < 200; ++round) {  // 200 x 512 KiB would not fit below
    Storage& storage = make(512_KiB, 1);
    ASSERT_NE(storage.record, nullptr);
    make(768_KiB, 2);
    ASSERT_EQ(storage.data, nullptr);
    engine.died(storage.record);
    (void)engine.free(storages_.back().data);
  }
}

// Making room for `other` may not leave `made` to be rebuilt from a source the op has changed by then.
//
//   budget 1 MiB   [ stays 256 | free 256 | source 256 | made 256 ]   other 512: away
TEST_F(EngineTest, DropsNobodyWhoWouldBeRebuiltFromWhatTheOpWrites) {
  Storage& other = make(512_KiB, 1);
  Storage& source = make(256_KiB, 2);
  Storage& made = make(256_KiB, 3);
  Storage& stays = make(256_KiB, 4);
  ASSERT_EQ(other.data, nullptr);
  Recipe recipe;
  recipe.ingredients.push_back({source.record, source.record->epoch});
  recipe.outputs = {made.record};
  engine.set_policy(ReactivePolicy::lru, Leave::replay, /*plans=*/nullptr);
  auto lock = engine.lock();
  engine.set_recipe(made.record, &recipe);
  engine.hold_for_life(stays.record);

  const std::array uses{Use{source.record, true}, Use{other.record, false}};
  ASSERT_FALSE(engine.acquire(uses, device.caller_stream(), lock).has_value());

  EXPECT_EQ(made.record->residence, Residence::away);
  engine.release(uses);
  engine.clear_recipes(made.record);
  std::vector<Recipe*> dying;
  engine.take_dying(dying);
}

TEST_F(EngineTest, BringsEverythingHomeOrSaysThatItDoesNotFit) {
  Storage& first = make(512_KiB, 1);
  Storage& second = make(512_KiB, 2);
  make(512_KiB, 3);
  EXPECT_FALSE(engine.bring_all_home());
  engine.set_budget(2_MiB);
  EXPECT_TRUE(engine.bring_all_home());
  EXPECT_TRUE(holds(first, 512_KiB, 1));
  EXPECT_TRUE(holds(second, 512_KiB, 2));
}

TEST_F(EngineTest, ARebuildThatFailsOnTheWayHomeLeavesNobodyPinned) {
  Storage& source = make(64_KiB, 1);
  Storage& made = make(64_KiB, 2);
  Recipe recipe;
  drop(made, source, recipe);
  ASSERT_EQ(made.record->residence, Residence::dropped);
  owner.rebuild_now = [](Record&) { throw std::runtime_error("no room"); };

  EXPECT_THROW((void)engine.bring_all_home(), std::runtime_error);

  EXPECT_EQ(source.record->pins, 0);
  EXPECT_EQ(made.record->pins, 0);
  EXPECT_EQ(made.record->residence, Residence::dropped);
  owner.rebuild_now = [&](Record& record) {
    Record* fresh = engine.try_allocate(record.size, device.caller_stream());
    const auto lock = engine.lock();
    engine.finish_rebuild(&record, fresh, {});
  };
  EXPECT_TRUE(engine.bring_all_home());
  const auto lock = engine.lock();
  engine.clear_recipes(made.record);
  std::vector<Recipe*> dying;
  engine.take_dying(dying);
}

// made and side are results of one op; made can be made again leanly from side.
class LeanTest : public EngineTest {
 protected:
  LeanTest() {
    recipe.ingredients.push_back({source.record, source.record->epoch});
    recipe.outputs = {made.record, side.record};
    recipe.sides = {{.output = 1, .epoch = side.record->epoch}};
    recipe.time = 1000_ms;
    recipe.lean_time = 1_ns;
    const auto lock = engine.lock();
    for (const Storage* result : {&made, &side}) engine.set_recipe(result->record, &recipe);
  }
  ~LeanTest() override {
    const auto lock = engine.lock();
    const std::vector<Record*> results = recipe.outputs;
    for (Record* result : results) {
      if (result != nullptr) engine.clear_recipes(result);
    }
    std::vector<Recipe*> dying;
    engine.take_dying(dying);
  }

  [[nodiscard]] bool may_be_lean() {
    const auto lock = engine.lock();
    const std::vector<Record*> sides = engine.borrow_sides(recipe, *made.record);
    engine.return_sides(sides);
    return !sides.empty();
  }

  Storage& source = make(64_KiB, 1);
  Storage& made = make(64_KiB, 2);
  Storage& side = make(64_KiB, 3);
  Recipe recipe;
};

TEST_F(LeanTest, OnlyTheFirstResultHasALeanRebuild) {
  EXPECT_TRUE(may_be_lean());
  const auto lock = engine.lock();
  EXPECT_TRUE(engine.borrow_sides(recipe, *side.record).empty());
}

TEST_F(LeanTest, ASideThatIsAwayWillDo) {
  engine.evict_all(Leave::move);
  EXPECT_EQ(side.data, nullptr);
  EXPECT_TRUE(may_be_lean());
}

TEST_F(LeanTest, ASideThatChangedWillNot) {
  use(side, /*write=*/true);
  EXPECT_FALSE(may_be_lean());
}

TEST_F(LeanTest, ASideThatSomebodyMayChangeWillNot) {
  lend(side);
  EXPECT_FALSE(may_be_lean());
  end_loan(side);
}

TEST_F(LeanTest, ADeadSideIsForgotten) {
  ASSERT_TRUE(engine.free(side.data));
  EXPECT_EQ(recipe.outputs[1], nullptr);
  EXPECT_FALSE(may_be_lean());
}

TEST_F(LeanTest, ABorrowedSideThatDiesKeepsItsBytesUntilItIsReturned) {
  auto lock = engine.lock();
  const std::vector<Record*> sides = engine.borrow_sides(recipe, *made.record);
  lock.unlock();
  const std::byte* bytes = side.data;
  ASSERT_TRUE(engine.free(side.data));
  EXPECT_NE(engine.find(bytes), nullptr);
  EXPECT_EQ(bytes[0], std::byte{3});
  lock.lock();
  engine.return_sides(sides);
  EXPECT_EQ(engine.find(bytes), nullptr);
}

TEST_F(LeanTest, ABorrowedSideThatWasDroppedAndDiesIsKeptAsWell) {
  auto lock = engine.lock();
  const std::vector<Record*> sides = engine.borrow_sides(recipe, *made.record);
  lock.unlock();
  engine.evict_all(Leave::replay);
  ASSERT_EQ(sides[0]->residence, Residence::dropped);
  engine.died(sides[0]);
  EXPECT_EQ(sides[0]->residence, Residence::dropped);
  EXPECT_TRUE(sides[0]->orphan);
  lock.lock();
  engine.return_sides(sides);
  EXPECT_EQ(recipe.outputs[1], nullptr);
  lock.unlock();
  engine.died(made.record);
}

// The same op: dear to run again, which side would need, and cheap for made.
TEST_F(LeanTest, ItsPriceDecidesBetweenDropAndMove) {
  engine.evict_all(Leave::cheaper);
  EXPECT_EQ(made.record->residence, Residence::dropped);
  EXPECT_EQ(side.record->residence, Residence::away);
  engine.died(made.record);
}

TEST_F(LeanTest, WithoutItsSideItIsTooDearToDrop) {
  ASSERT_TRUE(engine.free(side.data));
  engine.evict_all(Leave::cheaper);
  EXPECT_EQ(made.record->residence, Residence::away);
}

}  // namespace
}  // namespace spillway
