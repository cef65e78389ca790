#include "engine/record_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>

namespace spillway {
namespace {

const void* address(std::uint64_t n) { return reinterpret_cast<const void*>((n + 1) * 64); }
Record* record(std::uint64_t n) { return reinterpret_cast<Record*>((n + 1) * 8); }  // only compared, never read

TEST(RecordTable, AgreesWithAMapOverRandomInsertionsAndRemovals) {
  std::mt19937_64 dice(1);
  RecordTable table;
  std::map<const void*, Record*> expected;
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t n = dice() % 5'000;
    if (expected.contains(address(n))) {
      table.erase(address(n));
      expected.erase(address(n));
    } else {
      table.insert(address(n), record(n));
      expected[address(n)] = record(n);
    }
    const std::uint64_t asked = dice() % 5'000;
    const auto found = expected.find(address(asked));
    ASSERT_EQ(table.find(address(asked)), found == expected.end() ? nullptr : found->second);
  }
  EXPECT_EQ(table.size(), expected.size());
}

TEST(RecordTable, ErasingWhatIsNotThereChangesNothing) {
  RecordTable table;
  table.insert(address(1), record(1));
  table.erase(address(2));
  EXPECT_EQ(table.find(address(1)), record(1));
  EXPECT_EQ(table.size(), 1u);
}

}  // namespace
}  // namespace spillway
