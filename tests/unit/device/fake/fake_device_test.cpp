#include "device/fake/fake_device.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/device/fake/round_card.h"

namespace spillway {
namespace {

constexpr Place kDevice{Tier::device, 0_B}, kHost{Tier::host, 0_B}, kFile{Tier::file, 0_B};

// 64 MiB committed in every tier of a round card; streams a, b and c; everything enqueued at time 0 unless said.
class FakeTime : public testing::Test {
 protected:
  explicit FakeTime(const Card& card = round_card()) : device_(card) {
    for (Tier tier : {Tier::device, Tier::host, Tier::file}) {
      device_.reserve(tier, 64_MiB);
      EXPECT_TRUE(device_.try_commit(tier, {0_B, 64_MiB}));
    }
    a_ = device_.open_stream();
    b_ = device_.open_stream();
    c_ = device_.open_stream();
    start_ = device_.record(a_);
  }

  void out(StreamId on, Bytes size) { device_.copy(on, {Tier::host, 32_MiB}, kDevice, size); }
  void in(StreamId on, Bytes size) { device_.copy(on, {Tier::device, 32_MiB}, kHost, size); }

  // When everything enqueued on the stream so far is done, since the start.
  Nanos end(StreamId stream) {
    const Tick tick = device_.record(stream);
    device_.synchronize(tick);
    return device_.elapsed(start_, tick);
  }

  FakeDevice device_;
  StreamId a_, b_, c_;
  Tick start_;
};

TEST_F(FakeTime, CopyTakesItsSizeOverItsRate) {
  out(a_, 10'000'000_B);
  EXPECT_EQ(end(a_), 1'000'000_ns);
}

TEST_F(FakeTime, BegunNanosecondsCountWhole) {
  out(a_, 11_B);
  EXPECT_EQ(end(a_), 2_ns);
}

TEST_F(FakeTime, EveryRouteHasItsOwnRate) {
  const Place device_b{Tier::device, 32_MiB}, host_b{Tier::host, 32_MiB}, file_b{Tier::file, 32_MiB};
  const auto takes = [&](Place to, Place from) {
    const Nanos before = end(a_);
    device_.copy(a_, to, from, 1'000'000_B);
    return end(a_) - before;
  };
  EXPECT_EQ(takes(device_b, kDevice), 10'000_ns) << "read and written at 200 GB/s together";
  EXPECT_EQ(takes(host_b, kHost), 200'000_ns);
  EXPECT_EQ(takes(kFile, kHost), 1'000'000_ns);
  EXPECT_EQ(takes(kFile, kDevice), 1'000'000_ns);
  EXPECT_EQ(takes(kHost, kFile), 500'000_ns);
  EXPECT_EQ(takes(kDevice, kFile), 500'000_ns);
  EXPECT_EQ(takes(file_b, kFile), 1'000'000_ns);
}

// out  10 MB  |8 B/ns........|10 B/ns......|
// in    5 MB  |8 B/ns........|
//             0        625,000     1,125,000 ns
TEST_F(FakeTime, BothDirectionsAtOnceSlowEachOtherWhileTheyOverlap) {
  out(a_, 10'000'000_B);
  in(b_, 5'000'000_B);
  EXPECT_EQ(end(b_), 625'000_ns);
  EXPECT_EQ(end(a_), 1'125'000_ns);
}

// a  |copy 1,000|
// b             |copy 500|     one direction is one lane
TEST_F(FakeTime, CopiesOfOneDirectionTakeTurns) {
  out(a_, 10'000_B);
  out(b_, 5'000_B);
  const Tick first = device_.record(a_);
  EXPECT_EQ(end(b_), 1'500_ns);
  EXPECT_EQ(device_.elapsed(start_, first), 1'000_ns);
}

// out     |..550..|
// kernel  |..500..|...500...|        1,000 ns of work; beside the copy 550 ns pass for 500 of it
TEST_F(FakeTime, KernelBesideACopyOutPaysItsPrice) {
  device_.compute(a_, 1'000_ns);
  out(b_, 5'500_B);
  EXPECT_EQ(end(a_), 1'050_ns);
}

// out     |..............600 (4,800 B at 8)...|
// in      |..............600 (4,800 B at 8)...|....| alone: 1,200 B at 10: 120
// kernel  |..............400..................|.96.|...504...|      600 / 1.5, 120 / 1.25, the rest alone
TEST_F(FakeTime, KernelPaysTheOnePriceForBothAndThenTheOther) {
  device_.compute(a_, 1'000_ns);
  out(b_, 4'800_B);
  in(c_, 6'000_B);
  EXPECT_EQ(end(a_), 600_ns + 120_ns + 504_ns);
}

TEST_F(FakeTime, FileAndDeviceInternalCopiesDoNotSlowKernels) {
  device_.compute(a_, 1'000_ns);
  device_.copy(b_, kFile, kHost, 4_MiB);
  device_.copy(c_, {Tier::device, 32_MiB}, kDevice, 4_MiB);
  EXPECT_EQ(end(a_), 1'000_ns);
}

TEST_F(FakeTime, KernelsOfTwoStreamsTakeTurns) {
  device_.compute(a_, 1'000_ns);
  device_.compute(b_, 300_ns);
  EXPECT_EQ(end(b_), 1'300_ns);
}

TEST_F(FakeTime, KernelOfNoLengthTakesNoTime) {
  device_.compute(b_, 1'000_ns);
  device_.compute(a_, 0_ns);
  EXPECT_EQ(end(a_), 0_ns);
}

// a  |kernel 700| tick
// b  |wait......|copy 100|
// c  |wait......|wait....|kernel 50|
TEST_F(FakeTime, WaitsPassTimeOnExactly) {
  device_.compute(a_, 700_ns);
  device_.wait(b_, device_.record(a_));
  out(b_, 1'000_B);
  device_.wait(c_, device_.record(b_));
  device_.compute(c_, 50_ns);
  EXPECT_EQ(end(c_), 850_ns);
}

// b was told to wait before a's other follower, but both are released by one event: the lower stream id goes first
TEST_F(FakeTime, ReleasedTogetherTheLowerStreamGoesFirst) {
  device_.compute(a_, 100_ns);
  const Tick release = device_.record(a_);
  device_.wait(c_, release);
  out(c_, 1'000_B);
  device_.wait(b_, release);
  out(b_, 2'000_B);
  EXPECT_EQ(end(b_), 300_ns);
  EXPECT_EQ(end(c_), 400_ns);
}

TEST_F(FakeTime, EnqueuedInOneInstantTheFirstGoesFirst) {
  out(c_, 1'000_B);
  out(b_, 2'000_B);
  EXPECT_EQ(end(c_), 100_ns);
  EXPECT_EQ(end(b_), 300_ns);
}

TEST_F(FakeTime, HostClockMovesOnlyByItsOwnWorkAndByWaiting) {
  device_.compute(a_, 1'000_ns);
  const Tick tick = device_.record(a_);
  EXPECT_EQ(device_.now(), 0_ns);
  EXPECT_FALSE(device_.query(tick));
  device_.advance(999_ns);
  EXPECT_FALSE(device_.query(tick));
  device_.advance(1_ns);
  EXPECT_TRUE(device_.query(tick));
  device_.advance(500_ns);
  device_.synchronize(tick);
  EXPECT_EQ(device_.now(), 1'500_ns) << "what is done already costs no wait";
  EXPECT_EQ(device_.elapsed(start_, tick), 1'000_ns);
}

// The kernel waits for the host, not the other way round.
TEST_F(FakeTime, WorkStartsNoEarlierThanItIsEnqueued) {
  device_.advance(400_ns);
  device_.compute(a_, 100_ns);
  EXPECT_EQ(end(a_), 500_ns);
}

// 139 GiB in billionths of a byte is beyond 64 bits.
TEST_F(FakeTime, LongWorkDoesNotOverflow) {
  Card big = round_card();
  big.memory = big.host_memory = 512_GiB;
  FakeDevice device(big);
  const StreamId stream = device.open_stream();
  for (Tier tier : {Tier::device, Tier::host}) {
    device.reserve(tier, 512_GiB);
    ASSERT_TRUE(device.try_commit(tier, {0_B, 512_GiB}));
  }
  device.copy(stream, kHost, kDevice, 500'000'000'000_B);
  device.compute(stream, 1'000'000_s);
  device.synchronize(device.record(stream));
  EXPECT_EQ(device.now(), 50_s + 1'000'000_s);
}

class FakeLatency : public FakeTime {
 protected:
  FakeLatency() : FakeTime(card()) {}
  static Card card() {
    Card card = round_card();
    card.copy_latency = 200_ns;
    return card;
  }
};

// out     |latency 200|4,400 B at 10: 440|
// kernel  |    200    |       400        |...400...|     1,000 ns of work
TEST_F(FakeLatency, OnlyBytesOnTheLinkSlowKernels) {
  device_.compute(a_, 1'000_ns);
  out(b_, 4'400_B);
  EXPECT_EQ(end(b_), 640_ns);
  EXPECT_EQ(end(a_), 1'040_ns);
}

// out  |latency|2,000 at 10|latency|2,000 at 10|      every copy pays it
TEST_F(FakeLatency, EveryCopyPaysItAndTheLaneWaits) {
  out(a_, 2'000_B);
  out(b_, 2'000_B);
  EXPECT_EQ(end(b_), 800_ns);
}

class FakeLaunch : public FakeTime {
 protected:
  FakeLaunch() : FakeTime(card()) {}
  static Card card() {
    Card card = round_card();
    card.launch = 50_ns;
    card.event = 7_ns;
    card.compute_slots = 2;
    return card;
  }
};

TEST_F(FakeLaunch, EveryCallTakesItsHostTime) {
  const Nanos begin = device_.now();
  device_.compute(a_, 10_ns);
  out(a_, 64_B);
  const Tick tick = device_.record(a_);
  device_.wait(b_, tick);
  (void)device_.query(tick);
  EXPECT_EQ(device_.now() - begin, 50_ns * 2 + 7_ns * 3);
  out(a_, 0_B);
  EXPECT_EQ(device_.now() - begin, 50_ns * 2 + 7_ns * 3) << "a copy of nothing does nothing";
}

// host  |50|50|50|50|      launch-bound: a kernel of 10 ns every 50
// a        |10 |10 |10 |10
TEST_F(FakeLaunch, ShortKernelsWaitForTheHost) {
  const Nanos begin = device_.now();
  for (int i = 0; i < 4; ++i) device_.compute(a_, 10_ns);
  device_.synchronize(device_.record(a_));
  EXPECT_EQ(device_.now() - begin, 200_ns + 10_ns);
}

TEST_F(FakeLaunch, TwoSlotsRunTwoKernelsAtOnce) {
  device_.compute(a_, 1'000_ns);
  device_.compute(b_, 1'000_ns);
  device_.compute(c_, 1'000_ns);
  const Tick a = device_.record(a_), b = device_.record(b_), c = device_.record(c_);
  device_.synchronize(c);
  EXPECT_EQ(device_.elapsed(a, b), 50_ns);
  EXPECT_EQ(device_.elapsed(a, c), 1'000_ns) << "the third takes the slot of the first";
}

TEST_F(FakeTime, DecommitUnderAnEnqueuedCopyIsAnInvariantError) {
  out(a_, 4_MiB);
  const Tick tick = device_.record(a_);
  EXPECT_THROW(device_.decommit(Tier::device, {2_MiB, 4_MiB}), InvariantError);
  EXPECT_THROW(device_.decommit(Tier::host, {32_MiB, 34_MiB}), InvariantError);
  device_.decommit(Tier::device, {4_MiB, 6_MiB});
  device_.synchronize(tick);
  device_.decommit(Tier::device, {2_MiB, 4_MiB});
  device_.decommit(Tier::host, {32_MiB, 34_MiB});
  EXPECT_EQ(device_.committed(Tier::device), 60_MiB);
}

TEST_F(FakeTime, RefusesNonsense) {
  EXPECT_THROW(device_.compute(a_, -1_ns), InvariantError);
  EXPECT_THROW(device_.advance(-1_ns), InvariantError);
  EXPECT_THROW(device_.compute({99}, 1_ns), InvariantError);
  const MemoryUse beyond{.place = {Tier::device, 64_MiB}, .size = 1_B};
  EXPECT_THROW(device_.compute(a_, 1_ns, std::span(&beyond, 1)), InvariantError);
  for (auto member : {&Card::out, &Card::in_both, &Card::file_read, &Card::hbm}) {
    Card broken = round_card();
    broken.*member = {};
    EXPECT_THROW(FakeDevice{broken}, InvariantError);
  }
  Card slow = round_card();
  slow.slower_beside_in = {1'000'001};
  EXPECT_THROW(FakeDevice{slow}, InvariantError);
}

// Measured on the card: 1 GiB moved out and back behind kernels makes them 0.84 ms longer.
TEST(FakeH200, PriceOfAHiddenMoveIsNearTheMeasuredOne) {
  FakeDevice device(find_card("h200"));
  for (Tier tier : {Tier::device, Tier::host}) {
    device.reserve(tier, 1_GiB);
    ASSERT_TRUE(device.try_commit(tier, {0_B, 1_GiB}));
  }
  const StreamId kernels = device.open_stream(), moves = device.open_stream();
  const Tick begin = device.record(kernels);
  device.compute(kernels, 100_ms);
  device.copy(moves, kHost, kDevice, 1_GiB);
  device.copy(moves, kDevice, kHost, 1_GiB);
  const Tick end = device.record(kernels);
  device.synchronize(end);
  const Nanos price = device.elapsed(begin, end) - 100_ms;
  EXPECT_GT(price, 740_us);
  EXPECT_LT(price, 940_us);
}

TEST(FakeDevice, TheCallersOwnStreamMarksItsNewestTick) {
  FakeDevice device(round_card(), {.caller_computes = true});
  const StreamId caller = device.open_stream(), other = device.open_stream();
  const Tick newest = device.record(caller), before = device.record(other);
  EXPECT_EQ(device.mark(caller), newest);
  EXPECT_GT(device.mark(other), before);
}

}  // namespace
}  // namespace spillway
