// On a simulated card, where a stream stands still for a known time.
#include "engine/stalls.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "device/fake/fake_device.h"

namespace spillway {
namespace {

Card quick_card() {
  Card card = find_card("h200");
  card.launch = card.event = 0_ns;
  card.compute_slots = 2;
  return card;
}

class StallsTest : public testing::Test {
 protected:
  // On `beside`, so long from when it is told.
  Tick work(Nanos duration) {
    card.compute(beside, duration);
    return card.record(beside);
  }
  StreamWait wait_for(Tick awaited) {
    const Tick before = card.record_timed(compute);
    card.wait(compute, awaited);
    return {.before = before, .awaited = awaited};
  }
  std::vector<Nanos> settle() {
    std::vector<Nanos> found;
    waits.settle(card, [&](const StreamWait&, Nanos stall) { found.push_back(stall); });
    return found;
  }

  FakeDevice card{quick_card()};
  StreamId compute = card.open_stream(), beside = card.open_stream();
  StreamWaits waits;
};

// compute   [ 3 ms ]before............[goes on
// beside    [-------- 10 ms --------]awaited
TEST_F(StallsTest, AStreamStandsStillFromTheWaitUntilWhatItAwaits) {
  const Tick awaited = work(10_ms);
  card.compute(compute, 3_ms);
  waits.add(wait_for(awaited));
  EXPECT_TRUE(settle().empty());
  card.advance(9_ms);
  EXPECT_TRUE(settle().empty());
  card.advance(1_ms);
  EXPECT_EQ(settle(), std::vector{7_ms});
  EXPECT_TRUE(settle().empty());
}

TEST_F(StallsTest, WhatIsThereInTimeIsNotWaitedForHoweverFarTheHostIsAhead) {
  const Tick awaited = work(10_ms);
  card.compute(compute, 30_ms);
  waits.add(wait_for(awaited));
  card.advance(20_ms);
  EXPECT_TRUE(settle().empty());
  // And it is out: who comes after it is told.
  waits.add(wait_for(work(30_ms)));
  card.advance(60_ms);
  EXPECT_EQ(settle(), std::vector{20_ms});
}

TEST_F(StallsTest, TwoWaitsInARowShareTheTime) {
  const Tick first = work(4_ms), second = work(3_ms);
  waits.add(wait_for(first));
  waits.add(wait_for(second));
  card.advance(10_ms);
  EXPECT_EQ(settle(), (std::vector{4_ms, 3_ms}));
}

TEST_F(StallsTest, AMomentIsNoStall) {
  waits.add(wait_for(work(1_us)));
  card.advance(10_ms);
  EXPECT_TRUE(settle().empty());
}

TEST_F(StallsTest, WhatTheDeviceHasForgottenIsNotAskedFor) {
  for (const StreamId busy : {compute, beside}) {
    waits.add(wait_for(work(10_ms)));
    card.advance(10_ms);
    for (std::uint64_t i = 0; i < kTickWindow; ++i) (void)card.record(busy);
    EXPECT_TRUE(settle().empty());
  }
}

TEST_F(StallsTest, LookingTakesNothingOut) {
  waits.add(wait_for(work(10_ms)));
  card.advance(10_ms);
  Nanos seen;
  const auto add = [&](const StreamWait&, Nanos stall) { seen += stall; };
  EXPECT_EQ(std::as_const(waits).visit_over(card, add), 1u);
  EXPECT_EQ(seen, 10_ms);
  EXPECT_EQ(settle(), std::vector{10_ms});
}

TEST_F(StallsTest, MoreThanThereIsRoomForAreNotMeasured) {
  for (std::size_t i = 0; i < StreamWaits::kMost + 3; ++i) waits.add(wait_for(work(1_ms)));
  card.advance(10_s);
  EXPECT_EQ(settle().size(), StreamWaits::kMost);
  waits.add(wait_for(work(1_ms)));
  card.advance(10_s);
  EXPECT_EQ(settle().size(), 1u);
}

TEST(StallTimes, HasATimeForEveryCause) {
  StallTimes times;
  times.of(StallCause::fetch) += 1_ns;
  times.of(StallCause::room) += 2_ns;
  times.of(StallCause::host_room) += 3_ns;
  times.of(StallCause::file) += 4_ns;
  EXPECT_EQ(std::vector({times.fetch, times.room, times.host_room, times.file}), std::vector({1_ns, 2_ns, 3_ns, 4_ns}));
}

}  // namespace
}  // namespace spillway
