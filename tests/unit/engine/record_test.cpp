#include "engine/record.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "base/error.h"

namespace spillway {
namespace {

std::set<const Record*> in(const RecordList& list) { return {list.begin(), list.end()}; }

TEST(RecordList, HasWhoCameAndDidNotGo) {
  std::array<Record, 3> records;
  RecordList list;
  for (Record& record : records) list.insert(&record);
  list.erase(&records[0]);
  EXPECT_EQ(in(list), (std::set<const Record*>{&records[1], &records[2]}));
  list.erase(&records[2]);
  EXPECT_EQ(in(list), std::set<const Record*>{&records[1]});
  list.insert(&records[0]);
  list.erase(&records[1]);
  list.erase(&records[0]);
  EXPECT_TRUE(list.empty());
}

TEST(RecordList, HasARecordOnce) {
  Record record;
  RecordList list;
  list.insert(&record);
  list.insert(&record);
  EXPECT_EQ(std::distance(list.begin(), list.end()), 1);
}

TEST(RecordList, LosesNobodyWhenAnotherListsRecordGoes) {
  Record here, there;
  RecordList list, other;
  list.insert(&here);
  other.insert(&there);
  list.erase(&there);
  EXPECT_EQ(in(list), std::set<const Record*>{&here});
  EXPECT_EQ(in(other), std::set<const Record*>{&there});
}

TEST(RecordList, RefusesWhoIsInAnother) {
  std::array<Record, 2> records;
  RecordList list, other;
  list.insert(&records[0]);
  list.insert(&records[1]);
  EXPECT_THROW(other.insert(&records[1]), InvariantError);
}

}  // namespace
}  // namespace spillway
