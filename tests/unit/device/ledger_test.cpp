#include "device/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"

namespace spillway {
namespace {

Ledger reserved(std::int64_t granules, Bytes limit = {}) {
  Ledger ledger(1_MiB, limit);
  ledger.reserve(1_MiB * granules);
  return ledger;
}

Range mib(std::int64_t begin, std::int64_t end) { return {1_MiB * begin, 1_MiB * end}; }

// 0    1    2    3    4    5
// | a  |    | b  |                 then the hole between is filled, and all of it is one range
TEST(Ledger, SeesNeighboursAsOneRange) {
  Ledger ledger = reserved(8);
  EXPECT_TRUE(ledger.try_commit(mib(0, 1)));
  EXPECT_TRUE(ledger.try_commit(mib(2, 3)));
  EXPECT_FALSE(ledger.holds(mib(0, 3)));
  EXPECT_TRUE(ledger.try_commit(mib(1, 2)));
  EXPECT_TRUE(ledger.holds(mib(0, 3)));
  EXPECT_TRUE(ledger.holds({1_B, 3_MiB - 1_B}));
  EXPECT_FALSE(ledger.holds(mib(0, 4)));
}

TEST(Ledger, TakesAHoleOutOfTheMiddle) {
  Ledger ledger = reserved(8);
  EXPECT_TRUE(ledger.try_commit(mib(0, 6)));
  ledger.decommit(mib(2, 4));
  EXPECT_TRUE(ledger.holds(mib(0, 2)));
  EXPECT_TRUE(ledger.holds(mib(4, 6)));
  EXPECT_FALSE(ledger.holds(mib(1, 3)));
  EXPECT_FALSE(ledger.holds(mib(3, 5)));
  EXPECT_EQ(ledger.committed(), 4_MiB);
}

TEST(Ledger, RefusesOnlyBeyondTheLimit) {
  Ledger ledger = reserved(8, 3_MiB);
  EXPECT_TRUE(ledger.try_commit(mib(0, 2)));
  EXPECT_FALSE(ledger.try_commit(mib(4, 6)));
  EXPECT_EQ(ledger.committed(), 2_MiB);
  EXPECT_TRUE(ledger.try_commit(mib(4, 5)));
  EXPECT_FALSE(ledger.try_commit(mib(6, 7)));
}

TEST(Ledger, NamesTheRuleThatWasBroken) {
  Ledger ledger = reserved(2);
  try {
    ledger.decommit(mib(0, 1));
    FAIL() << "nothing was committed";
  } catch (const InvariantError& error) {
    EXPECT_NE(std::string(error.what()).find("only committed memory is given back"), std::string::npos) << error.what();
  }
}

// The oracle is one bool per granule.
TEST(Ledger, AgreesWithAPlainMapOfGranules) {
  constexpr std::int64_t kGranules = 40;
  Ledger ledger = reserved(kGranules);
  std::vector<bool> shadow(kGranules);
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t begin = random() % kGranules, end = begin + 1 + random() % (kGranules - begin);
    const auto count = std::count(shadow.begin() + begin, shadow.begin() + end, true);
    ASSERT_EQ(ledger.holds(mib(begin, end)), count == end - begin);
    if (count == 0) {
      ASSERT_TRUE(ledger.try_commit(mib(begin, end)));
      std::fill(shadow.begin() + begin, shadow.begin() + end, true);
    } else if (count == end - begin) {
      ledger.decommit(mib(begin, end));
      std::fill(shadow.begin() + begin, shadow.begin() + end, false);
    } else {
      ASSERT_THROW((void)ledger.try_commit(mib(begin, end)), InvariantError);
      ASSERT_THROW(ledger.decommit(mib(begin, end)), InvariantError);
    }
    ASSERT_EQ(ledger.committed(), 1_MiB * std::count(shadow.begin(), shadow.end(), true));
  }
}

}  // namespace
}  // namespace spillway
