#include "swap/children.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace spillway {

Children::~Children() { forget_all(); }

void Children::forget_all() {
  for (const Child& child : there_) {
    if (child.pipe >= 0) ::close(child.pipe);
  }
  there_.clear();
}

// A child of a child keeps the end it inherited, too: the grandparent sees both.
void Children::before_fork() {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) ends = {-1, -1};
  there_.push_back({++count_, ends[0]});
  write_end_ = ends[1];
}

void Children::after_fork(bool child) {
  if (child) forget_all();
  else if (write_end_ >= 0) ::close(std::exchange(write_end_, -1));
}

void Children::look() {
  std::vector<pollfd> ends;
  for (const Child& child : there_) ends.push_back({.fd = child.pipe, .events = 0, .revents = 0});
  if (::poll(ends.data(), ends.size(), /*timeout=*/0) <= 0) return;
  auto end = ends.begin();
  std::erase_if(there_, [&](const Child& child) {
    const bool gone = ((end++)->revents & POLLHUP) != 0;
    if (gone) ::close(child.pipe);
    return gone;
  });
}

bool Children::any_there(std::uint64_t after, std::uint64_t last) const {
  return std::ranges::any_of(there_, [&](const Child& child) { return child.number > after && child.number <= last; });
}

}  // namespace spillway
