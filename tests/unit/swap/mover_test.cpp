// Moves over real memory and a real file: which places are given on, and when.
#include "swap/mover.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace
}  // namespace spillway
