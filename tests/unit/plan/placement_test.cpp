#include "plan/placement.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/range.h"

namespace spillway {
namespace {

std::vector<bool> positions(const Presence& stay, std::uint32_t last) {
  std::vector<bool> there(last);
  const bool wraps = stay.end <= stay.begin;
  for (std::uint32_t at = 0; at < last; ++at) there[at] = wraps ? at >= stay.begin || at < stay.end : at >= stay.begin && at < stay.end;
  return there;
}

void expect_apart(const std::vector<Presence>& stays, const Placement& placed, std::uint32_t last) {
  for (std::size_t a = 0; a < stays.size(); ++a) {
    for (std::size_t b = a + 1; b < stays.size(); ++b) {
      const auto one = positions(stays[a], last), other = positions(stays[b], last);
      bool together = false;
      for (std::uint32_t at = 0; at < last; ++at) together = together || (one[at] && other[at]);
      const Range first{placed.offsets[a], placed.offsets[a] + stays[a].size};
      const Range second{placed.offsets[b], placed.offsets[b] + stays[b].size};
      EXPECT_FALSE(together && first.overlaps(second)) << a << " and " << b;
    }
  }
}

TEST(Placement, WhoIsGoneMakesRoom) {
  const std::vector<Presence> stays{{4_MiB, 0, 4}, {2_MiB, 1, 3}, {2_MiB, 3, 6}, {4_MiB, 4, 6}};
  const Placement placed = place(stays, 0_B);
  expect_apart(stays, placed, 6);
  EXPECT_EQ(placed.top, 6_MiB);
  EXPECT_EQ(most_at_once(stays), 6_MiB);
}

TEST(Placement, WhoStaysOverTheStepsEndIsThereOnBothSidesOfIt) {
  const std::vector<Presence> stays{{1_MiB, 4, 2}, {1_MiB, 0, 1}, {1_MiB, 2, 4}, {1_MiB, 5, 6}};
  const Placement placed = place(stays, 0_B);
  expect_apart(stays, placed, 6);
  EXPECT_EQ(placed.top, 2_MiB);
}

TEST(Placement, NothingHasNoTop) { EXPECT_EQ(place({}, 0_B).top, 0_B); }

// Like a training step: what the forward makes dies in the backward in the opposite order, with short stays in between.
std::vector<Presence> step_like(std::mt19937& random, std::uint32_t half) {
  std::vector<Presence> stays;
  const auto size = [&] { return Bytes{static_cast<std::int64_t>(1 + random() % 64) << (random() % 6)} * 65536; };
  for (std::uint32_t at = 0; at < half; ++at) {
    if (random() % 3 != 0) stays.push_back({size(), at, 2 * half - at});
    stays.push_back({size(), at, at + 1 + static_cast<std::uint32_t>(random() % 3)});
    stays.push_back({size(), half + at, half + at + 1 + static_cast<std::uint32_t>(random() % 3)});
    if (random() % 20 == 0) stays.push_back({size(), half + at, static_cast<std::uint32_t>(random() % half)});
  }
  return stays;
}

TEST(Placement, IsApartAndNearTheBoundOnMadeUpSteps) {
  std::mt19937 random(7);
  double sum = 0;
  constexpr int kSteps = 20;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<Presence> stays = step_like(random, 60);
    const Placement placed = place(stays, 0_B);
    expect_apart(stays, placed, 130);
    const double over = static_cast<double>(placed.top.count) / static_cast<double>(most_at_once(stays).count) - 1;
    EXPECT_GE(over, 0);
    sum += over;
  }
  EXPECT_LT(sum / kSteps, 0.02);
}

}  // namespace
}  // namespace spillway
