// What every Device must do, as one suite that runs on any of them.
//
// To put another device under it, include this header in a test file of its own, derive a DeviceSubject (a fresh device
// for one test plus the few things the interface cannot say), and instantiate:
//
//   INSTANTIATE_TEST_SUITE_P(Cuda, DeviceContract, testing::Values(DeviceCase{"cuda", make_cuda_subject, "no card"}),
//                            case_name);
//
// `make` may return null where the device cannot be had: the tests are then skipped with the reason given. Contents are
// checked where facts().holds_bytes; order, accounting and misuse everywhere. No test here asserts on real time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "contract/device_contract_limits.h"
#include "contract/device_contract_moves.h"
#include "contract/device_subject.h"

namespace spillway {

// ---------------------------------------------------------------------------------------------------------- memory

TEST_P(DeviceContract, FactsNameTheDeviceAndAUsableGranule) {
  const DeviceFacts& facts = device().facts();
  EXPECT_FALSE(facts.name.empty());
  EXPECT_GT(facts.memory, 0_B);
  EXPECT_GT(facts.granule, 0_B);
  EXPECT_EQ(facts.granule % kFileBlock, 0_B);
}

TEST_P(DeviceContract, ReservationTakesNoMemory) {
  for (Tier tier : tiers()) EXPECT_EQ(device().committed(tier), 0_B) << tier_name(tier);
}

TEST_P(DeviceContract, CommitAndDecommitAreCountedByteForByte) {
  for (Tier tier : tiers()) {
    commit(tier, slot(0, 3));
    commit(tier, slot(5));
    EXPECT_EQ(device().committed(tier), granules(4)) << tier_name(tier);
    device().decommit(tier, slot(1));
    EXPECT_EQ(device().committed(tier), granules(3)) << tier_name(tier);
    commit(tier, slot(1));
    device().decommit(tier, slot(0, 3));
    device().decommit(tier, slot(5));
    EXPECT_EQ(device().committed(tier), 0_B) << tier_name(tier);
  }
}

TEST_P(DeviceContract, TiersAreCountedApart) {
  std::int64_t count = 0;
  for (Tier tier : tiers()) commit(tier, slot(0, ++count));
  count = 0;
  for (Tier tier : tiers()) EXPECT_EQ(device().committed(tier), granules(++count)) << tier_name(tier);
}

TEST_P(DeviceContract, NeighboursCommittedApartCanBeGivenBackTogether) {
  for (Tier tier : tiers()) {
    commit(tier, slot(1));
    commit(tier, slot(0));
    commit(tier, slot(2));
    device().decommit(tier, slot(0, 3));
    EXPECT_EQ(device().committed(tier), 0_B) << tier_name(tier);
  }
}

TEST_P(DeviceContract, AddressesAreContiguousAndStayWithTheReservation) {
  for (Tier tier : {Tier::device, Tier::host}) {
    if (tier == Tier::host && !device().facts().holds_bytes) {
      EXPECT_EQ(device().address(tier, 0_B), nullptr);
      continue;
    }
    std::byte* begin = device().address(tier, 0_B);
    ASSERT_NE(begin, nullptr);
    commit(tier, slot(0, 4));
    device().decommit(tier, slot(0, 4));
    EXPECT_EQ(device().address(tier, granules(3)), begin + granules(3).count);
  }
  EXPECT_EQ(device().address(Tier::file, 0_B), nullptr);
}

TEST_P(DeviceContract, ContentsSurviveWhatHappensToTheirNeighbours) {
  for (Tier tier : tiers()) {
    commit(tier, slot(0, 3));
    put({tier, granules(1)}, granule(), 7);
    device().decommit(tier, slot(0));
    device().decommit(tier, slot(2));
    commit(tier, slot(2, 2));
    expect_holds({tier, granules(1)}, granule(), 7, tier_name(tier));
  }
}

// ---------------------------------------------------------------------------------------------------------- copies

TEST_P(DeviceContract, CopiesKeepContentsBetweenEveryPairOfTiers) {
  const StreamId stream = device().open_stream();
  const Bytes size = granule() - 13_B;
  std::uint32_t seed = 0;
  for (Tier tier : tiers()) commit(tier, slot(0, 2));
  for (Tier from : tiers()) {
    for (Tier to : tiers()) {
      put({from, 0_B}, size, ++seed);
      device().copy(stream, {to, granule()}, {from, 0_B}, size);
      finish(stream);
      expect_holds({to, granule()}, size, seed, tier_name(from) + " to " + tier_name(to));
    }
  }
}

// | 1 1 1 1 | 1 2 2 1 | 1 1 1 1 |   a copy of odd length at an odd offset into the middle, outside the file tier
TEST_P(DeviceContract, CopyTouchesNothingBesideItsRange) {
  const StreamId stream = device().open_stream();
  const Bytes before = 1000_B + 3_B, size = 2000_B + 1_B, after = 777_B;
  for (Tier tier : {Tier::device, Tier::host}) {
    commit(tier, slot(0, 2));
    put({tier, 0_B}, before, 1);
    put({tier, before + size}, after, 3);
    put({tier, granule() + 5_B}, size, 2);
    device().copy(stream, {tier, before}, {tier, granule() + 5_B}, size);
    finish(stream);
    expect_holds({tier, 0_B}, before, 1, "before, " + tier_name(tier));
    expect_holds({tier, before}, size, 2, "inside, " + tier_name(tier));
    expect_holds({tier, before + size}, after, 3, "after, " + tier_name(tier));
  }
}

TEST_P(DeviceContract, FileCopiesInNeighbouringBlocksDoNotDisturbEachOther) {
  if (!subject_->offers(Tier::file)) GTEST_SKIP() << "no file tier";
  const Bytes odd = kFileBlock + 100_B;
  commit(Tier::file, slot(0));
  put({Tier::file, kFileBlock * 4}, odd, 3);
  put({Tier::file, kFileBlock * 2}, odd, 2);
  put({Tier::file, 0_B}, odd, 1);
  for (std::uint32_t i = 0; i < 3; ++i) expect_holds({Tier::file, kFileBlock * 2 * i}, odd, i + 1, "file");
}

TEST_P(DeviceContract, CopyOfNothingDoesNothing) {
  const StreamId stream = device().open_stream();
  commit(Tier::device, slot(0, 2));
  put({Tier::device, 0_B}, 64_B, 1);
  device().copy(stream, {Tier::device, 0_B}, {Tier::device, granule()}, 0_B);
  finish(stream);
  expect_holds({Tier::device, 0_B}, 64_B, 1, "device");
}

// host -> device -> device -> host, the stream's order alone makes the last one see the first
TEST_P(DeviceContract, FillOverwritesItsRangeInTheOrderOfItsStreamAndNothingBeside) {
  commit(Tier::device, slot(0, 3));
  commit(Tier::host, slot(0));
  const StreamId stream = device().open_stream();
  put({Tier::device, 0_B}, granule(), 1);
  put({Tier::device, granules(2)}, granule(), 3);
  device().fill(stream, granules(1), granule(), std::byte{0xA5});
  device().copy(stream, {Tier::host, 0_B}, {Tier::device, granules(1)}, granule());
  device().fill(stream, granules(1), granule(), std::byte{0x11});
  device().fill(stream, granules(7), 0_B, std::byte{0});
  finish(stream);
  expect_holds({Tier::device, 0_B}, granule(), 1, "the place before");
  expect_holds({Tier::device, granules(2)}, granule(), 3, "the place after");
  if (!device().facts().holds_bytes) return;
  const std::byte* seen = device().address(Tier::host, 0_B);
  EXPECT_TRUE(std::all_of(seen, seen + granule().count, [](std::byte value) { return value == std::byte{0xA5}; }));
}

TEST_P(DeviceContract, FillOfUncommittedMemoryIsRefused) {
  const StreamId stream = device().open_stream();
  commit(Tier::device, slot(0));
  EXPECT_THROW(device().fill(stream, 0_B, granules(2), std::byte{1}), InvariantError);
}

TEST_P(DeviceContract, CopiesOfOneStreamRunInItsOrder) {
  const StreamId stream = device().open_stream();
  commit(Tier::host, slot(0, 2));
  commit(Tier::device, slot(0, 2));
  for (std::uint32_t round = 0; round < 20; ++round) {
    put({Tier::host, 0_B}, granule(), round);
    device().copy(stream, {Tier::device, 0_B}, {Tier::host, 0_B}, granule());
    device().copy(stream, {Tier::device, granule()}, {Tier::device, 0_B}, granule());
    device().copy(stream, {Tier::host, granule()}, {Tier::device, granule()}, granule());
    finish(stream);
    expect_holds({Tier::host, granule()}, granule(), round, "round " + std::to_string(round));
  }
}

// ------------------------------------------------------------------------------------------------- ticks and waits

TEST_P(DeviceContract, TicksOfAStreamGrowFromOne) {
  const StreamId stream = device().open_stream();
  Tick last{stream, 0};
  for (int i = 0; i < 10; ++i) {
    const Tick next = device().record(stream);
    EXPECT_EQ(next.stream, stream);
    EXPECT_GT(next.value, last.value);
    last = next;
  }
}

TEST_P(DeviceContract, TickZeroLiesBeforeAnyWork) {
  const StreamId stream = device().open_stream();
  subject_->hold(stream);
  EXPECT_TRUE(device().query({stream, 0}));
  device().synchronize({stream, 0});
}

TEST_P(DeviceContract, QueryIsFalseWhileWorkIsPendingAndTrueAfter) {
  const StreamId stream = device().open_stream();
  subject_->hold(stream);
  const Tick tick = device().record(stream);
  EXPECT_FALSE(device().query(tick));
  subject_->release();
  device().synchronize(tick);
  EXPECT_TRUE(device().query(tick));
}

TEST_P(DeviceContract, TickIsDoneThoughLaterWorkOfItsStreamIsNot) {
  const StreamId stream = device().open_stream();
  const Tick early = device().record(stream);
  subject_->hold(stream);
  const Tick late = device().record(stream);
  device().synchronize(early);
  EXPECT_TRUE(device().query(early));
  EXPECT_FALSE(device().query(late));
}

TEST_P(DeviceContract, MarkIsATickAfterEverythingEnqueuedBeforeIt) {
  const StreamId held = device().open_stream(), waiter = device().open_stream();
  commit(Tier::device, slot(0, 3));
  put({Tier::device, 0_B}, granule(), 7);
  subject_->hold(held);
  device().copy(held, {Tier::device, granule()}, {Tier::device, 0_B}, granule());
  const Tick mark = device().mark(held);
  EXPECT_EQ(mark.stream, held);
  EXPECT_FALSE(device().query(mark));
  device().wait(waiter, mark);
  device().copy(waiter, {Tier::device, granules(2)}, {Tier::device, granule()}, granule());
  const Tick copied = device().record(waiter);
  EXPECT_FALSE(device().query(copied));
  subject_->release();
  device().synchronize(copied);
  EXPECT_TRUE(device().query(mark));
  expect_holds({Tier::device, granules(2)}, granule(), 7, "copied behind a mark");
}

TEST_P(DeviceContract, MarksOfAStreamNeverGoBackAndLieBetweenItsTicks) {
  const StreamId stream = device().open_stream();
  const Tick before = device().record(stream), mark = device().mark(stream), again = device().mark(stream);
  const Tick after = device().record(stream);
  EXPECT_GT(mark.value, before.value);
  EXPECT_GE(again.value, mark.value);
  EXPECT_GE(after.value, again.value);
  EXPECT_GT(device().mark(stream).value, after.value);
}

TEST_P(DeviceContract, MarkNobodyWaitedForCanBeWaitedForLater) {
  const StreamId stream = device().open_stream();
  const Tick mark = device().mark(stream);
  for (int i = 0; i < 3; ++i) (void)device().record(stream);
  device().synchronize(mark);
  EXPECT_TRUE(device().query(mark));
  const Tick newest = device().mark(stream);
  device().synchronize(newest);
  EXPECT_TRUE(device().query(newest));
}

TEST_P(DeviceContract, HeldStreamDoesNotBlockAnother) {
  const StreamId held = device().open_stream(), other = device().open_stream();
  commit(Tier::device, slot(0, 2));
  subject_->hold(held);
  const Tick blocked = device().record(held);
  put({Tier::device, 0_B}, granule(), 5);
  device().copy(other, {Tier::device, granule()}, {Tier::device, 0_B}, granule());
  finish(other);
  expect_holds({Tier::device, granule()}, granule(), 5, "copied beside a held stream");
  EXPECT_FALSE(device().query(blocked));
}

// first    [held....][copy a -> b] tick
// second   [wait for tick        ][copy b -> c]
TEST_P(DeviceContract, WaitOrdersAStreamAfterAnother) {
  const StreamId first = device().open_stream(), second = device().open_stream();
  commit(Tier::device, slot(0, 3));
  put({Tier::device, 0_B}, granule(), 9);
  subject_->hold(first);
  device().copy(first, {Tier::device, granules(1)}, {Tier::device, 0_B}, granule());
  device().wait(second, device().record(first));
  device().copy(second, {Tier::device, granules(2)}, {Tier::device, granules(1)}, granule());
  const Tick after = device().record(second);
  EXPECT_FALSE(device().query(after));
  subject_->release();
  device().synchronize(after);
  expect_holds({Tier::device, granules(2)}, granule(), 9, "behind the wait");
}

TEST_P(DeviceContract, WaitsAreTransitive) {
  const StreamId first = device().open_stream(), second = device().open_stream(), third = device().open_stream();
  subject_->hold(first);
  const Tick root = device().record(first);
  device().wait(second, root);
  device().wait(third, device().record(second));
  const Tick leaf = device().record(third);
  EXPECT_FALSE(device().query(leaf));
  subject_->release();
  device().synchronize(leaf);
  EXPECT_TRUE(device().query(root));
}

TEST_P(DeviceContract, WaitHoldsOnlyWhatIsEnqueuedAfterIt) {
  const StreamId held = device().open_stream(), waiter = device().open_stream();
  subject_->hold(held);
  const Tick before = device().record(waiter);
  device().wait(waiter, device().record(held));
  const Tick behind = device().record(waiter);
  device().synchronize(before);
  EXPECT_FALSE(device().query(behind));
}

TEST_P(DeviceContract, WaitIsForTheTickNotForItsStream) {
  const StreamId held = device().open_stream(), waiter = device().open_stream();
  const Tick early = device().record(held);
  subject_->hold(held);
  device().wait(waiter, early);
  finish(waiter);
  EXPECT_FALSE(device().query(device().record(held)));
}

TEST_P(DeviceContract, SeveralWaitsAllCount) {
  const StreamId idle = device().open_stream(), held = device().open_stream(), waiter = device().open_stream();
  subject_->hold(held);
  device().wait(waiter, device().record(idle));
  device().wait(waiter, device().record(held));
  device().wait(waiter, device().record(idle));
  const Tick behind = device().record(waiter);
  EXPECT_FALSE(device().query(behind));
  subject_->release();
  device().synchronize(behind);
}

TEST_P(DeviceContract, WaitForATickThatIsDoneHoldsNothing) {
  const StreamId first = device().open_stream(), second = device().open_stream();
  const Tick done = device().record(first);
  device().synchronize(done);
  subject_->hold(first);
  device().wait(second, done);
  device().wait(second, {first, 0});
  finish(second);
}

TEST_P(DeviceContract, WaitForItsOwnTickIsHarmless) {
  const StreamId stream = device().open_stream();
  device().wait(stream, device().record(stream));
  finish(stream);
}

// a waits for b and b for a, each for a point already passed: no circle
TEST_P(DeviceContract, StreamsMayWaitForEachOther) {
  const StreamId a = device().open_stream(), b = device().open_stream();
  for (int i = 0; i < 100; ++i) {
    device().wait(b, device().record(a));
    device().wait(a, device().record(b));
  }
  finish(a);
  finish(b);
}

// ---------------------------------------------------------------------------------------------------------- clocks

TEST_P(DeviceContract, ElapsedIsZeroToItselfAndAddsUp) {
  const StreamId stream = device().open_stream();
  commit(Tier::device, slot(0, 2));
  const auto copied = [&] {
    device().copy(stream, {Tier::device, granule()}, {Tier::device, 0_B}, granule());
    return device().record(stream);
  };
  const Tick a = copied(), b = copied(), c = copied();
  device().synchronize(c);
  const Nanos error = subject_->clock_error();
  EXPECT_EQ(device().elapsed(b, b), 0_ns);
  EXPECT_GE(device().elapsed(a, b), -error);
  EXPECT_GE(device().elapsed(b, c), -error);
  const Nanos off = device().elapsed(a, b) + device().elapsed(b, c) - device().elapsed(a, c);
  EXPECT_LE(off, error * 3);
  EXPECT_GE(off, -error * 3);
}

TEST_P(DeviceContract, ATimedTickIsATickLikeAnyOther) {
  const StreamId stream = device().open_stream(), other = device().open_stream();
  subject_->hold(stream);
  const Tick first = device().record(stream), timed = device().record_timed(stream), last = device().record_timed(stream);
  EXPECT_EQ(timed.value, first.value + 1);
  EXPECT_EQ(last.value, timed.value + 1);
  EXPECT_FALSE(device().query(timed));
  device().wait(other, timed);
  const Tick behind = device().record(other);
  EXPECT_FALSE(device().query(behind));
  subject_->release();
  device().synchronize(behind);
  device().synchronize(last);
  EXPECT_GE(device().elapsed(timed, last), -subject_->clock_error());
}

TEST_P(DeviceContract, ElapsedSeesTheOrderThatAWaitMade) {
  const StreamId first = device().open_stream(), second = device().open_stream();
  subject_->hold(first);
  const Tick cause = device().record(first);
  device().wait(second, cause);
  const Tick effect = device().record(second);
  subject_->release();
  device().synchronize(effect);
  EXPECT_GE(device().elapsed(cause, effect), -subject_->clock_error());
  EXPECT_LE(device().elapsed(effect, cause), subject_->clock_error());
}

TEST_P(DeviceContract, NowNeverGoesBack) {
  const StreamId stream = device().open_stream();
  commit(Tier::device, slot(0, 2));
  Nanos last = device().now();
  for (int i = 0; i < 100; ++i) {
    device().copy(stream, {Tier::device, granule()}, {Tier::device, 0_B}, 64_KiB);
    if (i % 10 == 0) finish(stream);
    const Nanos next = device().now();
    ASSERT_GE(next, last);
    last = next;
  }
}

TEST_P(DeviceContract, HundredThousandTicksAreAllDoneInTheEnd) {
  const StreamId stream = device().open_stream(), other = device().open_stream();
  Tick last;
  for (int i = 0; i < 100'000; ++i) {
    last = device().record(stream);
    if (i % 100 == 0) device().wait(other, last);
  }
  device().synchronize(last);
  EXPECT_TRUE(device().query({stream, last.value / 2}));
  EXPECT_TRUE(device().query({stream, 1}));
  finish(other);
  EXPECT_GE(device().elapsed({stream, last.value - kTickWindow + 1}, last), -subject_->clock_error());
  EXPECT_THROW((void)device().elapsed({stream, 1}, last), InvariantError);
}

}  // namespace spillway
