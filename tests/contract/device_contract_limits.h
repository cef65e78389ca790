// The second half of the contract suite: refusal, many streams, several threads, misuse. Part of device_contract.h.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "contract/device_subject.h"

namespace spillway {

// --------------------------------------------------------------------------------------------- refusal, many, threads

//  | mine |  everything the tier could ever hold  |    one granule too many
TEST_P(DeviceContract, CommitRefusedBeyondTheMemoryChangesNothing) {
  for (Tier tier : tiers()) {
    const Bytes limit = subject_->limit(tier);
    if (limit == 0_B) continue;
    auto fresh = GetParam().make();
    Device& small = fresh->device();
    small.reserve(tier, round_up(limit, granule()) + granules(2));
    ASSERT_TRUE(small.try_commit(tier, slot(0)));
    EXPECT_FALSE(small.try_commit(tier, {granule(), granule() + round_up(limit, granule())})) << tier_name(tier);
    EXPECT_EQ(small.committed(tier), granule()) << tier_name(tier);
    EXPECT_TRUE(small.try_commit(tier, slot(1))) << tier_name(tier);
    small.decommit(tier, slot(0, 2));
    EXPECT_EQ(small.committed(tier), 0_B) << tier_name(tier);
  }
}

TEST_P(DeviceContract, ManyStreamsWorkAtOnce) {
  constexpr std::int64_t kStreams = 32;
  commit(Tier::host, slot(0));
  commit(Tier::device, slot(0));
  const Bytes piece = round_down(granule() / kStreams, 64_B);
  put({Tier::host, 0_B}, piece * kStreams, 4);
  std::vector<Tick> ticks;
  for (std::int64_t i = 0; i < kStreams; ++i) {
    const StreamId stream = device().open_stream();
    device().copy(stream, {Tier::device, piece * i}, {Tier::host, piece * i}, piece);
    ticks.push_back(device().record(stream));
  }
  for (Tick tick : ticks) device().synchronize(tick);
  expect_holds({Tier::device, 0_B}, piece * kStreams, 4, "pieces from all streams");
}

// Every thread sends its own granule to the device and back on its own stream, all at once.
TEST_P(DeviceContract, SeveralThreadsMayEnqueueAtOnce) {
  constexpr std::int64_t kThreads = 4;
  commit(Tier::host, slot(0, kThreads * 2));
  commit(Tier::device, slot(0, kThreads));
  for (std::int64_t i = 0; i < kThreads; ++i)
    put({Tier::host, granules(i)}, granule(), static_cast<std::uint32_t>(i));
  const auto there_and_back = [&](std::int64_t i) {
    const StreamId out = device().open_stream(), back = device().open_stream();
    for (int round = 0; round < 50; ++round) {
      device().copy(out, {Tier::device, granules(i)}, {Tier::host, granules(i)}, granule());
      device().wait(back, device().record(out));
      device().copy(back, {Tier::host, granules(kThreads + i)}, {Tier::device, granules(i)}, granule());
      device().wait(out, device().record(back));
    }
    finish(back);
  };
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < kThreads; ++i) threads.emplace_back(there_and_back, i);
  for (std::thread& thread : threads) thread.join();
  for (std::int64_t i = 0; i < kThreads; ++i)
    expect_holds({Tier::host, granules(kThreads + i)}, granule(), static_cast<std::uint32_t>(i), "thread");
}

TEST_P(DeviceContract, SeveralThreadsMayShareAStream) {
  const StreamId stream = device().open_stream();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) {
        const Tick tick = device().record(stream);
        if (n % 50 == 0) device().synchronize(tick);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Tick last = device().record(stream);
  EXPECT_EQ(last.value, 4001U);
  device().synchronize(last);
}

TEST_P(DeviceContract, SeveralThreadsMayCommitAtOnce) {
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int n = 0; n < 50; ++n) {
        EXPECT_TRUE(device().try_commit(Tier::device, slot(i * 3, 2)));
        device().decommit(Tier::device, slot(i * 3, n == 49 ? 1 : 2));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device().committed(Tier::device), granules(4));
}

TEST_P(DeviceContract, MayGoWhileWorkIsEnqueued) {
  const StreamId first = device().open_stream(), second = device().open_stream();
  commit(Tier::device, slot(0, 2));
  for (int i = 0; i < 20; ++i) {
    device().copy(first, {Tier::device, granule()}, {Tier::device, 0_B}, granule());
    device().wait(second, device().record(first));
    device().copy(second, {Tier::device, 0_B}, {Tier::device, granule()}, granule());
    device().wait(first, device().record(second));
  }
  subject_.reset();
}

// ---------------------------------------------------------------------------------------------------------- misuse

TEST_P(DeviceContract, MisuseOfReservationsIsAnInvariantError) {
  for (Tier tier : tiers()) EXPECT_THROW(device().reserve(tier, granule()), InvariantError) << tier_name(tier);
  auto fresh = GetParam().make();
  EXPECT_THROW((void)fresh->device().try_commit(Tier::device, slot(0)), InvariantError);
  EXPECT_THROW(fresh->device().reserve(Tier::device, 0_B), InvariantError);
  EXPECT_THROW(fresh->device().reserve(Tier::device, granule() + 1_B), InvariantError);
}

TEST_P(DeviceContract, MisuseOfCommitIsAnInvariantErrorAndChangesNothing) {
  for (Tier tier : tiers()) {
    SCOPED_TRACE(tier_name(tier));
    commit(tier, slot(2, 2));
    const auto refuse = [&](Range range) { EXPECT_THROW((void)device().try_commit(tier, range), InvariantError); };
    refuse({0_B, granule() - 1_B});                       // not whole granules
    refuse({granule() / 2, granule() / 2 + granule()});   // not at a granule
    refuse({0_B, 0_B});                                   // empty
    refuse(slot(kArena));                                 // past the reservation
    refuse({-granule(), 0_B});                            // before it
    refuse(slot(2));                                      // committed already
    refuse(slot(1, 2));                                   // committed in part
    EXPECT_EQ(device().committed(tier), granules(2));
    EXPECT_TRUE(device().try_commit(tier, slot(1)));
  }
}

TEST_P(DeviceContract, MisuseOfDecommitIsAnInvariantErrorAndChangesNothing) {
  for (Tier tier : tiers()) {
    SCOPED_TRACE(tier_name(tier));
    commit(tier, slot(2, 2));
    const auto refuse = [&](Range range) { EXPECT_THROW(device().decommit(tier, range), InvariantError); };
    refuse(slot(0));
    refuse(slot(1, 2));
    refuse(slot(3, 2));
    refuse({granules(2), granules(2) + 1_B});
    refuse({granules(2), granules(2)});
    refuse(slot(kArena));
    EXPECT_EQ(device().committed(tier), granules(2));
    device().decommit(tier, slot(2, 2));
    refuse(slot(2));
  }
}

TEST_P(DeviceContract, MisuseOfCopiesIsAnInvariantErrorAndTheStreamGoesOn) {
  const StreamId stream = device().open_stream();
  const Place good{Tier::device, 0_B}, absent{Tier::device, granules(5)}, ragged{Tier::device, granules(1)};
  commit(Tier::device, slot(0, 2));
  commit(Tier::host, slot(0));
  const auto refuse = [&](Place to, Place from, Bytes size) {
    EXPECT_THROW(device().copy(stream, to, from, size), InvariantError);
  };
  refuse(good, absent, 64_B);
  refuse(absent, good, 64_B);
  refuse({Tier::host, 0_B}, ragged, granule() + 1_B);            // runs out of the committed range
  refuse(good, {Tier::device, granule() / 2}, granule());        // overlaps itself
  refuse(good, {Tier::host, 0_B}, -64_B);
  refuse({Tier::device, granules(kArena)}, good, 64_B);
  EXPECT_THROW(device().copy(StreamId{}, ragged, good, 64_B), InvariantError);
  EXPECT_THROW(device().copy({stream.index + 1000}, ragged, good, 64_B), InvariantError);
  put(good, granule(), 3);
  device().copy(stream, ragged, good, granule());
  finish(stream);
  expect_holds(ragged, granule(), 3, "after the misuse");
}

TEST_P(DeviceContract, FilePlacesMustBeginAtABlock) {
  if (!subject_->offers(Tier::file)) GTEST_SKIP() << "no file tier";
  const StreamId stream = device().open_stream();
  const Place inside{Tier::file, 512_B}, host{Tier::host, 0_B};
  commit(Tier::file, slot(0));
  commit(Tier::host, slot(0));
  EXPECT_THROW(device().copy(stream, inside, host, 64_B), InvariantError);
  EXPECT_THROW(device().copy(stream, host, inside, 64_B), InvariantError);
}

TEST_P(DeviceContract, MisuseOfTicksIsAnInvariantError) {
  const StreamId stream = device().open_stream(), other = device().open_stream();
  const Tick done = device().record(stream), never{stream, done.value + 1}, nowhere{StreamId{}, 1};
  device().synchronize(done);
  for (Tick bad : {never, nowhere}) {
    EXPECT_THROW((void)device().query(bad), InvariantError);
    EXPECT_THROW(device().synchronize(bad), InvariantError);
    EXPECT_THROW(device().wait(other, bad), InvariantError);
    EXPECT_THROW((void)device().elapsed(done, bad), InvariantError);
  }
  EXPECT_THROW(device().wait(StreamId{}, done), InvariantError);
  EXPECT_THROW((void)device().record(StreamId{}), InvariantError);
  EXPECT_THROW((void)device().elapsed({stream, 0}, done), InvariantError);
  subject_->hold(other);
  EXPECT_THROW((void)device().elapsed(done, device().record(other)), InvariantError);
  finish(stream);
}

}  // namespace spillway
