#include "swap/children.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace spillway {
namespace {

pid_t fork_watched(Children& children, const std::function<void()>& life) {
  children.before_fork();
  const pid_t child = fork();
  children.after_fork(child == 0);
  if (child != 0) return child;
  life();
  _exit(0);
}

void wait_for_end(pid_t child) { ASSERT_EQ(waitpid(child, nullptr, 0), child); }

void end(pid_t child) {
  kill(child, SIGKILL);
  wait_for_end(child);
}

bool is_there(Children& children, std::uint64_t number) {
  children.look();
  return children.any_there(number - 1, number);
}

void look_until_gone(Children& children, std::uint64_t number) {
  while (is_there(children, number)) usleep(1000);
}

void stay() {
  for (;;) pause();
}

TEST(Children, AreThereUntilTheyEnd) {
  Children children;
  const pid_t first = fork_watched(children, stay), second = fork_watched(children, stay);
  EXPECT_EQ(children.count(), 2U);
  EXPECT_TRUE(is_there(children, 1));
  end(first);
  EXPECT_FALSE(is_there(children, 1));
  EXPECT_TRUE(is_there(children, 2));
  end(second);
  EXPECT_FALSE(is_there(children, 2));
}

TEST(Children, ThatBecomeOtherProgramsAreGone) {
  Children children;
  const pid_t child = fork_watched(children, [] { execl("/bin/sleep", "sleep", "1000", nullptr); });
  look_until_gone(children, 1);
  EXPECT_EQ(kill(child, 0), 0);
  end(child);
}

// The grandchild has what its parent had.
TEST(Children, AreThereAsLongAsTheirOwnChildren) {
  Children children;
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork_watched(children, [&] {
    const pid_t grandchild = fork();
    if (grandchild == 0) stay();
    if (write(told[1], &grandchild, sizeof grandchild) < 0) _exit(1);
  });
  pid_t grandchild = 0;
  ASSERT_EQ(read(told[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  wait_for_end(child);
  EXPECT_TRUE(is_there(children, 1));
  kill(grandchild, SIGKILL);
  look_until_gone(children, 1);
  close(told[0]);
  close(told[1]);
}

TEST(Children, OfAFailedForkAreGone) {
  Children children;
  children.before_fork();
  children.after_fork(/*child=*/false);
  EXPECT_FALSE(is_there(children, 1));
}

TEST(Children, CountAsThereWhenNothingTells) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  Children children;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  children.before_fork();
  children.after_fork(/*child=*/false);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(is_there(children, 1));
}

}  // namespace
}  // namespace spillway
