#include "base/side_by_side.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace spillway {
namespace {

TEST(SideBySide, EverythingIsDoneOnceWhateverTheThreads) {
  for (const std::size_t threads : {0u, 1u, 2u, 7u, 50u}) {
    std::vector<int> done(23);
    side_by_side(done.size(), threads, [&](std::size_t at) { ++done[at]; });
    EXPECT_EQ(done, std::vector<int>(23, 1)) << threads;
  }
  side_by_side(0, 3, [](std::size_t) { FAIL(); });
}

TEST(SideBySide, OneThreadGoesInOrder) {
  std::vector<std::size_t> order;
  side_by_side(4, 1, [&](std::size_t at) { order.push_back(at); });
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST(SideBySide, WhatIsThrownComesOutWhenAllHaveEnded) {
  std::atomic<int> ended = 0;
  const auto work = [&](std::size_t at) {
    ++ended;
    if (at == 2) throw std::runtime_error("two");
  };
  EXPECT_THROW(side_by_side(8, 3, work), std::runtime_error);
  EXPECT_EQ(ended, 8);
}

}  // namespace
}  // namespace spillway
