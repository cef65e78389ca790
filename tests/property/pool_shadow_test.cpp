// Ten million random operations on the pool, each answer judged by the shadow (shadow_pool.h says what that means).
//
// One test per number of streams and shard, so that they run beside each other. SPILLWAY_TEST_LONG makes it ten times
// as many, a sanitizer ten times as few. A failure names the seed of its episode, which replays it alone.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <tuple>

#include "pool/pool.h"
#include "pool_driver.h"
#include "pool_test_length.h"

namespace spillway::shadow {
namespace {

constexpr std::int64_t kOps = 10'000'000;
constexpr std::uint64_t kShards = 2;

class PoolShadow : public testing::TestWithParam<std::tuple<std::size_t, std::uint64_t>> {};

std::string name_of(const testing::TestParamInfo<PoolShadow::ParamType>& info) {
  return fmt::format("on_{}_streams_shard_{}", std::get<0>(info.param), std::get<1>(info.param));
}

TEST_P(PoolShadow, FindsEveryAnswerOfThePoolLawful) {
  const auto [streams, shard] = GetParam();
  const std::int64_t ops = test_length(kOps) / static_cast<std::int64_t>(kMaxStreams * kShards);
  std::int64_t done = 0, grants = 0, refusals = 0, orderable = 0, exact = 0;
  for (std::uint64_t seed = (streams * kShards + shard) << 32; done < ops; ++seed) {
    const Findings findings = PoolDriver<Pool>(random_episode(streams, seed)).run();
    done += findings.ops;
    grants += findings.grants;
    refusals += findings.refusals;
    orderable += findings.orderable;
    exact += findings.exact_judgements;
    for (const Violation& violation : findings.violations) {
      ADD_FAILURE() << "seed " << seed << " after " << findings.ops << " operations: " << violation.law << ": "
                    << violation.detail;
    }
    if (!findings.violations.empty()) return;
  }
  std::cout << fmt::format("{} operations: {} grants, {} of them with waits, {} refusals, {} choices judged exactly\n",
                           done, grants, orderable, refusals, exact);
  EXPECT_GT(grants, done / 4);
  EXPECT_GT(refusals, 0);
  EXPECT_GT(exact, 0);
  EXPECT_EQ(orderable > 0, streams > 1);
}

INSTANTIATE_TEST_SUITE_P(Random, PoolShadow,
                         testing::Combine(testing::Range<std::size_t>(1, kMaxStreams + 1),
                                          testing::Range<std::uint64_t>(0, kShards)),
                         name_of);

TEST(PoolAnswers, AreEqualForEqualCalls) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Episode episode = random_episode(1 + seed % kMaxStreams, seed);
    episode.ops = 3000;
    EXPECT_EQ(PoolDriver<Pool>(episode).run().digest, PoolDriver<Pool>(episode).run().digest) << "seed " << seed;
  }
}

}  // namespace
}  // namespace spillway::shadow
