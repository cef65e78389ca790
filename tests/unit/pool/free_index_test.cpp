#include "pool/free_index.h"

#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <random>
#include <vector>

namespace spillway {
namespace {

using testing::ElementsAre;

constexpr std::uint32_t kNone = FreeIndex::kNone;

TEST(FreeIndex, FindsTheSmallestThatFitsThenTheLowest) {
  FreeIndex index(512_B);
  index.insert(1, 0, {.size = 4_MiB, .address = 0_B});
  index.insert(2, 0, {.size = 2_MiB, .address = 64_MiB});
  index.insert(3, 0, {.size = 2_MiB, .address = 32_MiB});
  EXPECT_EQ(index.find_best(0, 1_MiB), 3U);
  EXPECT_EQ(index.find_best(0, 2_MiB + 512_B), 1U);
  EXPECT_EQ(index.find_best(0, 4_MiB + 512_B), kNone);
  EXPECT_EQ(index.find_best(7, 1_MiB), kNone);
  index.verify();
}

// Both sizes lie between two bin borders: the bin alone does not tell which fits.
TEST(FreeIndex, IsExactWithinABin) {
  FreeIndex index(512_B);
  index.insert(1, 0, {.size = 1_GiB + 512_B, .address = 0_B});
  index.insert(2, 0, {.size = 1_GiB + 1_KiB, .address = 2_GiB});
  EXPECT_EQ(index.find_best(0, 1_GiB), 1U);
  EXPECT_EQ(index.find_best(0, 1_GiB + 1_KiB), 2U);
  EXPECT_EQ(index.find_best(0, 1_GiB + 1_KiB + 512_B), kNone);
}

TEST(FreeIndex, FindsTheBestFitUpToATick) {
  FreeIndex index(512_B);
  index.insert(1, 2, {.size = 1_MiB, .address = 0_B, .tick = 9});
  index.insert(2, 2, {.size = 2_MiB, .address = 8_MiB, .tick = 5});
  index.insert(3, 2, {.size = 3_MiB, .address = 16_MiB, .tick = 2});
  EXPECT_EQ(index.find_best(2, 1_MiB), 1U);
  EXPECT_EQ(index.find_best(2, 1_MiB, 8), 2U);
  EXPECT_EQ(index.find_best(2, 1_MiB, 2), 3U);
  EXPECT_EQ(index.find_best(2, 1_MiB, 1), kNone);
  index.erase(3);
  EXPECT_EQ(index.find_best(2, 1_MiB, 4), kNone);
  index.verify();
}

TEST(FreeIndex, VisitsBySizeAndAddress) {
  FreeIndex index(512_B);
  index.insert(1, 0, {.size = 3_MiB, .address = 0_B});
  index.insert(2, 0, {.size = 1_MiB, .address = 8_MiB});
  index.insert(3, 0, {.size = 2_MiB, .address = 16_MiB});
  index.insert(4, 0, {.size = 2_MiB, .address = 12_MiB});
  std::vector<std::uint32_t> seen;
  index.visit_from(0, 2_MiB, [&](std::uint32_t name) { return seen.push_back(name), true; });
  EXPECT_THAT(seen, ElementsAre(4, 3, 1));
  seen.clear();
  index.visit_from(0, 512_B, [&](std::uint32_t name) { return seen.push_back(name), seen.size() < 2; });
  EXPECT_THAT(seen, ElementsAre(2, 4));
}

// A list searched from end to end is the oracle. Few sizes, so that bins hold many entries.
class FreeIndexAgainstAList : public testing::TestWithParam<unsigned> {
 protected:
  struct Held {
    std::uint32_t shelf;
    FreeIndex::Entry entry;
  };

  std::uint32_t best(std::uint32_t shelf, Bytes size, std::uint64_t newest) const {
    std::optional<std::pair<std::pair<Bytes, Bytes>, std::uint32_t>> found;
    for (const auto& [name, held] : held_) {
      if (held.shelf != shelf || held.entry.size < size || held.entry.tick > newest) continue;
      const std::pair rank{std::pair{held.entry.size, held.entry.address}, name};
      if (!found || rank < *found) found = rank;
    }
    return found ? found->second : kNone;
  }

  std::map<std::uint32_t, Held> held_;
};

TEST_P(FreeIndexAgainstAList, FindsTheSame) {
  std::mt19937 engine(GetParam());
  const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  FreeIndex index(512_B);
  for (int i = 0; i < 4'000; ++i) {
    const std::uint32_t name = random() % 200, shelf = random() % 3;
    if (held_.contains(name)) {
      index.erase(name);
      held_.erase(name);
    } else {
      const Bytes size = 512_B * (1 + random() % (1U << (random() % 12)));
      const FreeIndex::Entry entry{.size = size, .address = 1_MiB * name, .tick = 1 + random() % 50};
      index.insert(name, shelf, entry);
      held_[name] = {shelf, entry};
    }
    if (i % 16 == 0) index.verify();
    const Bytes size = 512_B * (1 + random() % 4'000);
    const std::uint64_t newest = random() % 60;
    EXPECT_EQ(index.find_best(shelf, size), best(shelf, size, UINT64_MAX));
    EXPECT_EQ(index.find_best(shelf, size, newest), best(shelf, size, newest));
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, FreeIndexAgainstAList, testing::Range(1U, 9U));

}  // namespace
}  // namespace spillway
