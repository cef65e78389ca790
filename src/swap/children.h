// Which forked children of this process are still there, told by pipes that close with them.
//
// A child, and whoever it forks in turn, has the write end of a pipe until it ends or becomes another program; the read
// end in the parent tells. Nobody is asked, waited for or reaped, and a fork costs one pipe.
//
// Forks are numbered from 1. Not locked: the engine's lock is held across a fork and around every call.
#pragma once

#include <cstdint>
#include <vector>

namespace spillway {

class Children {
 public:
  Children() = default;
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void before_fork();
  // Also when the fork failed: then its child is gone at once.
  void after_fork(bool child);

  // How many forks there were.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  // Looks who has gone since the last look.
  void look();
  // Whether a child of a fork in (after, last] was there at the last look.
  [[nodiscard]] bool any_there(std::uint64_t after, std::uint64_t last) const;

 private:
  struct Child {
    std::uint64_t number = 0;
    int pipe = -1;  // -1: there was none to be had, so it counts as there for good
  };

  void forget_all();

  std::uint64_t count_ = 0;
  std::vector<Child> there_;
  int write_end_ = -1;  // during the fork, and in a child for life
};

}  // namespace spillway
