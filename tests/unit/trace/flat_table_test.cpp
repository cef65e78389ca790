#include "trace/flat_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace spillway {
namespace {

TEST(FlatTable, KeepsWhatWasPutUntilItIsErased) {
  FlatTable<int> table;
  EXPECT_EQ(table.find(3), nullptr);
  table.put(3, 30);
  table.put(3, 31);
  ASSERT_NE(table.find(3), nullptr);
  EXPECT_EQ(*table.find(3), 31);
  EXPECT_EQ(table.size(), 1u);
  table.erase(3);
  table.erase(3);
  EXPECT_EQ(table.find(3), nullptr);
  EXPECT_EQ(table.size(), 0u);
}

// Few keys and many operations, so that runs of neighbours form, break and wrap around.
TEST(FlatTable, AgreesWithAnOrderedMapOverRandomOperations) {
  std::mt19937_64 random(1);
  FlatTable<std::uint64_t> table;
  std::map<std::uint64_t, std::uint64_t> expected;
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t key = random() % 300 * 4096;
    if (random() % 2 == 0) {
      table.put(key, random() % 1000);
      expected[key] = *table.find(key);
    } else {
      table.erase(key);
      expected.erase(key);
    }
    const std::uint64_t probe = random() % 300 * 4096;
    const auto known = expected.find(probe);
    ASSERT_EQ(table.find(probe) != nullptr, known != expected.end());
    if (known != expected.end()) {
      ASSERT_EQ(*table.find(probe), known->second);
    }
  }
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> all(expected.begin(), expected.end());
  EXPECT_EQ(table.sorted(), all);
}

}  // namespace
}  // namespace spillway
