// A pool that merges last uses with the minimum, built for this test alone, must be found out by the shadow.
//
// The pool's own sources are compiled into this executable with SPILLWAY_TEST_MERGE_MINIMUM (see CMakeLists.txt here),
// so the code under test is the real one but for that rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "pool/pool.h"
#include "property/pool_driver.h"

#ifndef SPILLWAY_TEST_MERGE_MINIMUM
#error "built without the broken rule this test is about"
#endif

namespace spillway::shadow {
namespace {

TEST(MergingLastUsesWithTheMinimum, IsReportedByTheShadowAsARace) {
  std::set<std::string> laws;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Episode episode = random_episode(2 + seed % (kMaxStreams - 1), seed);
    episode.ops = 2000;
    for (const Violation& violation : PoolDriver<Pool>(episode).run().violations) laws.insert(violation.law);
  }
  EXPECT_THAT(laws, testing::Contains("the waits order every earlier use of the bytes"));
}

}  // namespace
}  // namespace spillway::shadow
