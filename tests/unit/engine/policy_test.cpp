#include "engine/policy.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Policy, IsFoundByItsName) {
  EXPECT_EQ(find_policy("lru"), ReactivePolicy::lru);
  EXPECT_EQ(find_policy("dtr"), ReactivePolicy::dtr);
  EXPECT_EQ(find_policy("best"), std::nullopt);
  EXPECT_EQ(name_of(*find_policy("dtr")), "dtr");
}

TEST(Policy, LruLetsTheLongestUnusedLeaveWhateverItCosts) {
  const Candidate old{.staleness = 100, .nanos = 1e9};
  const Candidate young{.staleness = 10, .nanos = 1};
  EXPECT_LT(eviction_score(ReactivePolicy::lru, old), eviction_score(ReactivePolicy::lru, young));
}

TEST(Policy, LruPrefersSeveralOldOnesToOneYoungOne) {
  const Candidate old{.staleness = 100, .nanos = 1};
  const Candidate young{.staleness = 10, .nanos = 1};
  EXPECT_LT(10 * eviction_score(ReactivePolicy::lru, old), eviction_score(ReactivePolicy::lru, young));
}

TEST(Policy, DtrWeighsTheWayBackAgainstStaleness) {
  const Candidate dear{.staleness = 10, .nanos = 1000};
  const Candidate cheap{.staleness = 10, .nanos = 10};
  const Candidate cheap_but_fresh{.staleness = 1, .nanos = 10};
  EXPECT_LT(eviction_score(ReactivePolicy::dtr, cheap), eviction_score(ReactivePolicy::dtr, dear));
  EXPECT_LT(eviction_score(ReactivePolicy::dtr, cheap), eviction_score(ReactivePolicy::dtr, cheap_but_fresh));
}

}  // namespace
}  // namespace spillway
