#include "pool/sync_set.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr StreamId A{0}, B{1}, C{2};

class SyncStoreTest : public testing::Test {
 protected:
  SyncSet make(std::vector<Tick> uses) {
    SyncSet set;
    store.assign(set, uses);
    return set;
  }
  SyncStore store;
};

TEST_F(SyncStoreTest, ASetHoldsItsUsesByAscendingStream) {
  EXPECT_THAT(store.uses(make({})), IsEmpty());
  EXPECT_THAT(store.uses(make({{B, 4}})), ElementsAre(Tick{B, 4}));
  EXPECT_THAT(store.uses(make({{C, 1}, {A, 9}})), ElementsAre(Tick{A, 9}, Tick{C, 1}));
}

// a:  A@3        C@8
// b:  A@5  B@2   C@1
// ->  A@5  B@2   C@8
TEST_F(SyncStoreTest, AMergeKeepsTheLaterTickOfEveryStream) {
  SyncSet set = make({{A, 3}, {C, 8}});
  store.merge(set, make({{A, 5}, {B, 2}, {C, 1}}));
  EXPECT_THAT(store.uses(set), ElementsAre(Tick{A, 5}, Tick{B, 2}, Tick{C, 8}));
}

TEST_F(SyncStoreTest, AMergeOfSingleUsesStaysSingleWhereTheStreamIsTheSame) {
  SyncSet set = make({{A, 3}});
  store.merge(set, make({{A, 7}}));
  EXPECT_TRUE(set.single());
  EXPECT_EQ(set.only, (Tick{A, 7}));
  store.merge(set, make({{A, 5}}));
  EXPECT_EQ(set.only, (Tick{A, 7}));
  store.merge(set, make({}));
  EXPECT_EQ(set.only, (Tick{A, 7}));
  store.merge(set, make({{B, 1}}));
  EXPECT_THAT(store.uses(set), ElementsAre(Tick{A, 7}, Tick{B, 1}));
}

TEST_F(SyncStoreTest, ACopyIsIndependentOfTheOriginal) {
  SyncSet set = make({{A, 3}, {B, 8}});
  SyncSet copy = store.copy(set);
  store.merge(set, make({{A, 9}}));
  EXPECT_THAT(store.uses(copy), ElementsAre(Tick{A, 3}, Tick{B, 8}));
}

TEST_F(SyncStoreTest, UsersAreComparedWithoutTheirTicks) {
  EXPECT_TRUE(store.same_users(make({}), make({})));
  EXPECT_TRUE(store.same_users(make({{A, 1}}), make({{A, 2}})));
  EXPECT_TRUE(store.same_users(make({{A, 1}, {B, 1}}), make({{B, 7}, {A, 2}})));
  EXPECT_FALSE(store.same_users(make({}), make({{A, 2}})));
  EXPECT_FALSE(store.same_users(make({{A, 1}}), make({{B, 1}})));
  EXPECT_FALSE(store.same_users(make({{A, 1}}), make({{A, 1}, {B, 1}})));
  EXPECT_FALSE(store.same_users(make({{A, 1}, {C, 1}}), make({{A, 1}, {B, 1}})));
}

TEST_F(SyncStoreTest, ListsAreGivenBackAndUsedAgain) {
  SyncSet set = make({{A, 3}, {B, 8}});
  EXPECT_EQ(store.lists_in_use(), 1U);
  store.clear(set);
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(store.lists_in_use(), 0U);
  set = make({{B, 3}, {C, 8}});
  EXPECT_EQ(set.list, 0U);
}

TEST_F(SyncStoreTest, AStreamHasOneLastUse) { EXPECT_THROW(make({{A, 3}, {A, 4}}), InvariantError); }

}  // namespace
}  // namespace spillway
