// A caller that forgets the waits of class orderable must be found out, by the shadow and by the bytes themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "pool/pool.h"
#include "property/pool_driver.h"
#include "property/pool_poison.h"

namespace spillway::shadow {
namespace {

std::set<std::string> broken_laws(bool drops_waits) {
  std::set<std::string> laws;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Episode episode = random_episode(2 + seed % (kMaxStreams - 1), seed);
    episode.ops = 1000;
    episode.drops_orderable_waits = drops_waits;
    for (const Violation& violation : PoolDriver<Pool>(episode).run().violations) laws.insert(violation.law);
  }
  return laws;
}

TEST(DroppedOrderableWaits, AreReportedByTheShadowAsARace) {
  EXPECT_THAT(broken_laws(/*drops_waits=*/true), testing::Contains("the waits order every earlier use of the bytes"));
}

TEST(DroppedOrderableWaits, AreAllThatTheShadowHasToReport) {
  EXPECT_THAT(broken_laws(/*drops_waits=*/false), testing::IsEmpty());
}

TEST(DroppedOrderableWaits, LetAReadSeeAnotherOwnersBytes) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer reports this race itself, and ends the test with it";
#endif
  PoisonOptions options{.seed = 5, .ops = 4000, .hand_over = false};
  EXPECT_EQ(run_poison(options).foreign_reads, 0);
  options.drops_orderable_waits = true;
  EXPECT_GT(run_poison(options).foreign_reads, 0);
}

}  // namespace
}  // namespace spillway::shadow
