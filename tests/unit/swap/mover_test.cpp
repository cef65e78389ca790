// Moves over real memory and a real file: which places are given on, and when.
#include "swap/mover.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "device/fake/card.h"
#include "device/fake/fake_device.h"
#include "device/host/host_device.h"

namespace spillway {
namespace {

constexpr Bytes kGranule = 64_KiB;

class MoverTest : public testing::Test {
 protected:
  void SetUp() override {
    device.reserve(Tier::device, kGranule);
    ASSERT_TRUE(device.try_commit(Tier::device, {0_B, kGranule}));
  }

  [[nodiscard]] std::optional<LowerCopy> move_out() { return mover.try_move_out(0_B, kGranule, {}); }

  pid_t fork_one() {
    mover.before_fork();
    const pid_t child = fork();
    mover.after_fork(child == 0, device.caller_stream());
    if (child == 0) {
      for (;;) pause();
    }
    return child;
  }

  static void end(pid_t child) {
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
  }

  HostDevice device{HostOptions{.granule = kGranule, .file = SpillFileOptions{.folder = "/var/tmp"}}};
  Mover mover{device, {.host_limit = 0_B, .file_limit = kGranule * 2, .host_granule = {}}};  // room for two
};

TEST_F(MoverTest, GivesAPlaceInTheFileOn) {
  const auto first = move_out(), second = move_out();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(move_out());
  mover.forget(*first);
  EXPECT_TRUE(move_out());
}

TEST_F(MoverTest, KeepsAPlaceInTheFileThatAChildMayRead) {
  const auto first = move_out();
  ASSERT_TRUE(first);
  const pid_t child = fork_one();
  mover.forget(*first);
  EXPECT_TRUE(move_out());
  EXPECT_FALSE(move_out());
  end(child);
  EXPECT_TRUE(move_out());
}

TEST_F(MoverTest, GivesAPlaceOnThatWasMadeAfterTheFork) {
  const auto before = move_out();
  const pid_t child = fork_one();
  const auto after = move_out();
  ASSERT_TRUE(before && after);
  mover.forget(*after);
  EXPECT_TRUE(move_out());
  end(child);
}

// A child that was forked when the place had been given back does not read it, however long it stays.
TEST_F(MoverTest, KeepsAPlaceOnlyForThoseWhoSawIt) {
  const auto first = move_out();
  const pid_t saw_it = fork_one();
  mover.forget(*first);
  const pid_t did_not = fork_one();
  end(saw_it);
  EXPECT_TRUE(move_out());
  EXPECT_TRUE(move_out());
  end(did_not);
}

// One large copy, then more small ones than a stream keeps times of.
TEST(MoverRates, OfACopyTooLongAgoNothingIsAsked) {
  FakeDevice card{find_card("h200")};
  card.reserve(Tier::device, 4_MiB);
  ASSERT_TRUE(card.try_commit(Tier::device, {0_B, 4_MiB}));
  Mover mover{card, {.host_limit = 64_MiB, .file_limit = 0_B, .host_granule = {}}};
  mover.watch_rates(true);
  ASSERT_TRUE(mover.try_move_out(0_B, 2_MiB, {}));
  ASSERT_TRUE(mover.try_move_out(0_B, 2_MiB, {}));
  for (std::uint64_t i = 0; i < kTickWindow; ++i) {
    const auto copy = mover.try_move_out(0_B, 4_KiB, {});
    ASSERT_TRUE(copy);
    mover.forget(*copy);
  }
  EXPECT_EQ(mover.take_rates().out_nanos_per_byte, 0);
}

TEST(MoverRoom, HostMemoryTakenAheadOfNeedIsUsedByTheNextWayOut) {
  HostDevice device{HostOptions{.granule = kGranule}};
  device.reserve(Tier::device, kGranule);
  ASSERT_TRUE(device.try_commit(Tier::device, {0_B, kGranule}));
  Mover mover{device, {.host_limit = kGranule * 4, .file_limit = 0_B, .host_granule = {}}};
  mover.prepare_host(kGranule * 3, [] { return false; });
  EXPECT_EQ(device.committed(Tier::host), kGranule * 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(mover.try_move_out(0_B, kGranule, {}).has_value());
  EXPECT_EQ(device.committed(Tier::host), kGranule * 3);
  EXPECT_TRUE(mover.try_move_out(0_B, kGranule, {}).has_value());  // more than was foreseen: on demand
  EXPECT_EQ(device.committed(Tier::host), kGranule * 4);
  mover.drain();
}

// Pinning is dear: a step like the one before finds its places among those given back, whatever the host has not seen done.
TEST(MoverRoom, AStepLikeTheOneBeforeTakesNoHostMemory) {
  FakeDevice card{find_card("h200")};
  card.reserve(Tier::device, 64_MiB);
  ASSERT_TRUE(card.try_commit(Tier::device, {0_B, 64_MiB}));
  Mover mover{card, {.host_limit = 1024_MiB, .file_limit = 0_B, .host_granule = {}}};
  const auto play_step = [&] {
    std::vector<std::pair<LowerCopy, Bytes>> away;
    for (const Bytes size : {6_MiB, 2_MiB, 10_MiB, 4_MiB, 12_MiB, 2_MiB}) away.emplace_back(*mover.try_move_out(0_B, size, {}), size);
    for (; !away.empty(); away.pop_back()) {
      (void)mover.move_in(away.back().first, 0_B, away.back().second);
      mover.forget(away.back().first);
    }
  };
  play_step();
  const Bytes first = card.committed(Tier::host);
  for (int step = 0; step < 4; ++step) play_step();
  EXPECT_EQ(card.committed(Tier::host), first);
}

TEST(MoverRoom, HostMemoryIsTakenUpToItsLimitAndAsLongAsItMatters) {
  HostDevice device{HostOptions{.granule = kGranule}};
  Mover mover{device, {.host_limit = kGranule * 4, .file_limit = 0_B, .host_granule = {}}};
  int asked = 0;
  mover.prepare_host(kGranule * 3, [&] { return ++asked > 2; });
  EXPECT_EQ(device.committed(Tier::host), kGranule * 2);
  mover.prepare_host(kGranule * 100, [] { return false; });
  EXPECT_EQ(device.committed(Tier::host), kGranule * 4);
}

}  // namespace
}  // namespace spillway
