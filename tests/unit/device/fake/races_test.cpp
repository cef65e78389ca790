#include "device/fake/races.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/fake/fake_device.h"
#include "unit/device/fake/round_card.h"

namespace spillway {
namespace {

// Three streams of a device that watches for races; 32 MiB committed in device and host tier.
class RaceWatch : public testing::Test {
 protected:
  RaceWatch() {
    for (Tier tier : {Tier::device, Tier::host}) {
      device_.reserve(tier, 32_MiB);
      EXPECT_TRUE(device_.try_commit(tier, {0_B, 32_MiB}));
    }
  }

  void write(StreamId on, Bytes begin = 0_B, Bytes size = 1_MiB) { use(on, begin, size, true); }
  void read(StreamId on, Bytes begin = 0_B, Bytes size = 1_MiB) { use(on, begin, size, false); }
  void use(StreamId on, Bytes begin, Bytes size, bool writes) {
    const MemoryUse use{.place = {Tier::device, begin}, .size = size, .writes = writes};
    device_.compute(on, 10_ns, std::span(&use, 1));
  }
  void order(StreamId first, StreamId second) { device_.wait(second, device_.record(first)); }

  FakeDevice device_{round_card(), {.detect_races = true}};
  StreamId a_ = device_.open_stream(), b_ = device_.open_stream(), c_ = device_.open_stream();
};

TEST_F(RaceWatch, WriteAfterWriteNeedsAnOrder) {
  write(a_);
  EXPECT_THROW(write(b_), InvariantError);
}

TEST_F(RaceWatch, ReadAfterWriteNeedsAnOrder) {
  write(a_);
  EXPECT_THROW(read(b_), InvariantError);
}

TEST_F(RaceWatch, WriteAfterReadNeedsAnOrder) {
  read(a_);
  EXPECT_THROW(write(b_), InvariantError);
}

TEST_F(RaceWatch, ReadersNeedNone) {
  read(a_);
  read(b_);
  read(c_);
}

// a and b both read; c waits for b alone
TEST_F(RaceWatch, EveryReaderCounts) {
  read(a_);
  read(b_);
  order(b_, c_);
  EXPECT_THROW(write(c_), InvariantError);
  order(a_, c_);
  write(c_);
}

TEST_F(RaceWatch, AWaitIsAnOrder) {
  write(a_);
  order(a_, b_);
  write(b_);
}

TEST_F(RaceWatch, OrdersPassOn) {
  write(a_);
  order(a_, b_);
  order(b_, c_);
  read(c_);
}

TEST_F(RaceWatch, AnEarlierTickDoesNotCoverLaterWork) {
  const Tick early = device_.record(a_);
  write(a_);
  device_.wait(b_, early);
  EXPECT_THROW(read(b_), InvariantError);
}

// The virtual clock says the write is long over. Nobody made sure.
TEST_F(RaceWatch, TimeIsNoOrder) {
  write(a_);
  device_.advance(1_s);
  EXPECT_THROW(write(b_), InvariantError);
}

TEST_F(RaceWatch, WhatTheHostHasSeenDoneIsOrdered) {
  write(a_);
  device_.synchronize(device_.record(a_));
  write(b_);
  const Tick tick = device_.record(b_);
  device_.advance(1_s);
  ASSERT_TRUE(device_.query(tick));
  write(c_);
}

TEST_F(RaceWatch, AQueryThatSaysNotYetOrdersNothing) {
  write(a_);
  ASSERT_FALSE(device_.query(device_.record(a_)));
  EXPECT_THROW(write(b_), InvariantError);
}

// |---- a ----|
//        |---- b ----|     one common megabyte is enough; beside it there is no race
TEST_F(RaceWatch, OnlyCommonBytesRace) {
  write(a_, 0_MiB, 3_MiB);
  write(b_, 3_MiB, 2_MiB);
  read(b_, 3_MiB, 2_MiB);
  EXPECT_THROW(write(b_, 2_MiB, 2_MiB), InvariantError);
}

TEST_F(RaceWatch, CopiesRaceLikeKernels) {
  device_.copy(a_, {Tier::host, 0_B}, {Tier::device, 0_B}, 1_MiB);
  EXPECT_THROW(write(b_), InvariantError) << "still being read";
  EXPECT_THROW(device_.copy(b_, {Tier::device, 8_MiB}, {Tier::host, 0_B}, 1_MiB), InvariantError) << "still being written";
}

TEST_F(RaceWatch, NamesStreamsAndBytes) {
  write(a_, 1_MiB, 2_MiB);
  try {
    read(b_, 2_MiB, 4_MiB);
    FAIL() << "a race";
  } catch (const InvariantError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("stream 1 reads device bytes [2097152, 3145728)"));
    EXPECT_THAT(error.what(), testing::HasSubstr("stream 0, which writes them"));
  }
}

TEST_F(RaceWatch, GivingBackNeedsTheHostToKnow) {
  write(a_);
  const Tick tick = device_.record(a_);
  device_.advance(1_s);
  EXPECT_THROW(device_.decommit(Tier::device, {0_B, 2_MiB}), InvariantError);
  device_.synchronize(tick);
  device_.decommit(Tier::device, {0_B, 2_MiB});
  ASSERT_TRUE(device_.try_commit(Tier::device, {0_B, 2_MiB}));
  write(b_);
}

// The protocol of a move out and back: leave out any one wait and it is found.
TEST_F(RaceWatch, MissesNoEdgeOfAMoveOutAndBack) {
  for (int left_out = -1; left_out < 4; ++left_out) {
    FakeDevice device(round_card(), {.detect_races = true});
    for (Tier tier : {Tier::device, Tier::host}) {
      device.reserve(tier, 2_MiB);
      ASSERT_TRUE(device.try_commit(tier, {0_B, 2_MiB}));
    }
    const StreamId compute = device.open_stream(), out = device.open_stream(), in = device.open_stream();
    const MemoryUse uses{.place = {Tier::device, 0_B}, .size = 1_MiB, .writes = true};
    int edge = 0;
    const auto then = [&](StreamId first, StreamId second) {
      if (edge++ != left_out) device.wait(second, device.record(first));
    };
    const auto step = [&] {
      device.compute(compute, 10_ns, std::span(&uses, 1));
      then(compute, out);
      device.copy(out, {Tier::host, 0_B}, {Tier::device, 0_B}, 1_MiB);
      then(out, compute);
      device.compute(compute, 10_ns, std::span(&uses, 1));  // someone else in the same range
      then(compute, in);
      device.copy(in, {Tier::device, 0_B}, {Tier::host, 0_B}, 1_MiB);
      then(in, compute);
      device.compute(compute, 10_ns, std::span(&uses, 1));
    };
    if (left_out < 0) {
      EXPECT_NO_THROW(step());
    } else {
      EXPECT_THROW(step(), InvariantError) << "edge " << left_out;
    }
  }
}

}  // namespace
}  // namespace spillway
