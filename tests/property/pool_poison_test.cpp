// A hundred thousand blocks on real memory with real copy threads: no read sees another owner's bytes.
//
// SPILLWAY_TEST_LONG makes it a million. pool_poison.h tells how it works; tests/negative shows that it can fail.
#include <gtest/gtest.h>

#include <iostream>
#include <thread>

#include <fmt/format.h>

#include "pool_poison.h"
#include "pool_test_length.h"

namespace spillway::shadow {
namespace {

void expect_clean(const PoisonFindings& findings) {
  std::cout << fmt::format("{} grants, {} of them with waits, {} refusals, {} reads\n", findings.grants,
                           findings.stats.grants[static_cast<std::size_t>(GrantClass::orderable)], findings.refusals,
                           findings.reads);
  EXPECT_EQ(findings.foreign_reads, 0);
  EXPECT_GT(findings.reads, 0);
}

TEST(PoolPoison, LetsNoReadSeeAnotherOwnersBytesOnOneStream) {
  expect_clean(run_poison({.seed = 1, .ops = test_length(10'000), .streams = 1}));
}

TEST(PoolPoison, LetsNoReadSeeAnotherOwnersBytesOnFourStreams) {
  const PoisonFindings findings = run_poison({.seed = 2, .ops = test_length(40'000), .streams = 4});
  expect_clean(findings);
  EXPECT_GT(findings.stats.grants[static_cast<std::size_t>(GrantClass::orderable)], 0);
}

TEST(PoolPoison, LetsNoReadSeeAnotherOwnersBytesFromSlabs) {
  expect_clean(
      run_poison({.seed = 3, .ops = test_length(30'000), .streams = 3, .live = 250, .limit = 4_MiB, .slab = 64_KiB}));
}

TEST(PoolPoison, LetsNoReadSeeAnotherOwnersBytesWithTwoThreadsOnOneArena) {
  const PoisonOptions options{.seed = 4, .ops = test_length(10'000), .streams = 4};
  PoisonBench bench(options);
  const auto drive = [&](std::size_t first) {
    PoisonOptions own = options;
    own.seed += first;
    return PoisonDriver(bench, own, {bench.streams[first], bench.streams[first + 1]}).run();
  };
  PoisonFindings left, right;
  std::thread other([&] { left = drive(0); });
  right = drive(2);
  other.join();
  for (const StreamId stream : bench.streams) bench.host.synchronize(bench.host.record(stream));
  right.grants += left.grants;
  right.reads += left.reads;
  right.foreign_reads = bench.foreign_reads;
  right.stats = bench.arena.stats();
  bench.arena.verify();
  expect_clean(right);
  EXPECT_EQ(right.stats.live, 0_B);
}

}  // namespace
}  // namespace spillway::shadow
