// Several threads under one budget: see Note [A turn alone].
#include <atomic>
#include <latch>
#include <thread>

#include "unit/engine/engine_fixture.h"

namespace spillway {
namespace {

using namespace std::chrono_literals;

class TurnsTest : public EngineTest {
 protected:
  void begin(Storage& storage) {
    const Use use{storage.record, false};
    auto lock = engine.lock();
    ASSERT_FALSE(engine.acquire(std::span(&use, 1), device.caller_stream(), lock).has_value());
  }

  void end(Storage& storage) {
    const Use use{storage.record, false};
    const auto lock = engine.lock();
    engine.release(std::span(&use, 1));
  }

  // What an op makes in its middle, for the time of the op.
  bool try_workspace(Bytes size) {
    const Record* workspace = engine.try_allocate(size, device.caller_stream(), "op");
    return workspace != nullptr && engine.free(workspace->data);
  }

  bool was_crowded() {
    const auto lock = engine.lock();
    return engine.shortage(1_B).crowded;
  }
};

TEST_F(TurnsTest, ATurnBeginsWhenTheOpsOfOthersHaveEnded) {
  Storage& storage = make(64_KiB, 1);
  std::atomic<bool> ended = false, ended_before_turn = false;
  std::latch asks(1);
  begin(storage);
  std::jthread other([&] {
    asks.count_down();
    const Turn turn(engine);
    ended_before_turn = ended.load();
  });
  asks.wait();
  std::this_thread::sleep_for(30ms);
  ended = true;
  end(storage);
  other.join();
  EXPECT_TRUE(ended_before_turn);
}

// A kernel on several threads: the op ends when its last part has.
TEST_F(TurnsTest, APartOfAKernelIsRefusedMemoryThatItsOwnOpHolds) {
  Storage& storage = make(kBudget - 64_KiB, 1);
  begin(storage);
  std::atomic<bool> served = true;
  std::jthread part([&] { served = try_workspace(512_KiB); });
  part.join();
  EXPECT_FALSE(served);
  end(storage);
}

TEST_F(TurnsTest, NoOpBeginsInAnothersTurn) {
  Storage& storage = make(64_KiB, 1);
  std::atomic<bool> turn_over = false, began_after = false;
  std::jthread other;
  {
    const Turn turn(engine);
    std::latch asks(1);
    other = std::jthread([&] {
      asks.count_down();
      begin(storage);
      began_after = turn_over.load();
      end(storage);
    });
    asks.wait();
    begin(storage);  // one's own does
    std::this_thread::sleep_for(30ms);
    end(storage);
    turn_over = true;
  }
  other.join();
  EXPECT_TRUE(began_after);
}

// Each holds what the other lacks, and one of them has already written.
TEST_F(TurnsTest, WhoCanComeAgainGivesUpForWhoCannot) {
  Storage &mine = make(384_KiB, 1), &others = make(384_KiB, 2);
  std::latch both(2);
  bool first = true, crowded = false, second = false;
  std::jthread other([&] {
    const ComesAgain may(true);
    begin(others);
    both.arrive_and_wait();
    first = try_workspace(512_KiB);
    crowded = was_crowded();
    end(others);
    const Turn turn(engine);
    begin(others);
    second = try_workspace(512_KiB);
    end(others);
  });
  begin(mine);
  both.arrive_and_wait();
  EXPECT_TRUE(try_workspace(512_KiB));
  end(mine);
  other.join();
  EXPECT_FALSE(first);
  EXPECT_TRUE(crowded);
  EXPECT_TRUE(second);
}

TEST_F(TurnsTest, WhatTheOpsOfOthersMakeIsNotInTheFloor) {
  Storage &mine = make(64_KiB, 1), &others = make(64_KiB, 2);
  std::latch made(1), looked(1);
  std::jthread other([&] {
    begin(others);
    {
      const auto lock = engine.lock();
      (void)engine.begin_op();
    }
    Record* workspace = engine.try_allocate(512_KiB, device.caller_stream(), "op");
    made.count_down();
    looked.wait();
    EXPECT_TRUE(engine.free(workspace->data));
    const auto lock = engine.lock();
    engine.end_op();
    const Use use{others.record, false};
    engine.release(std::span(&use, 1));
  });
  made.wait();
  begin(mine);
  {
    auto lock = engine.lock();
    (void)engine.begin_op();
    engine.note_op({.inputs = 64_KiB, .outputs = {}, .transient = engine.peak_in_op()}, "look", lock);
    engine.end_op();
  }
  end(mine);
  looked.count_down();
  other.join();
  EXPECT_EQ(engine.stats().floor, 64_KiB);
}

}  // namespace
}  // namespace spillway
