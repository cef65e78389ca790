// The oracle on trial: it accepts a pool that is simple and right, and rejects every way of breaking it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "pool_driver.h"
#include "pool_reference.h"

namespace spillway::shadow {
namespace {

// The simple pool is told positions too high, so that the oracle does not demand that it remembers waits; it owns no
// slabs; what it cannot do (windows, remaps, best fit) is not asked.
Episode simple_episode(std::uint64_t seed) {
  Episode episode = random_episode(1 + seed % kMaxStreams, seed);
  episode.ops = 3000;
  episode.audit = false;
  episode.vague_positions = true;
  episode.live_target = 20;
  episode.pool.slab = 0_B;
  return episode;
}

template <Flaw kFlaw>
std::set<std::string> laws_broken_by() {
  std::set<std::string> laws;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const Findings findings = PoolDriver<ReferencePool<kFlaw>>(simple_episode(seed)).run();
    for (const Violation& violation : findings.violations) laws.insert(violation.law);
  }
  return laws;
}

template <int... kFlaws>
std::vector<std::set<std::string>> laws_broken_by_each(std::integer_sequence<int, kFlaws...>) {
  return {laws_broken_by<static_cast<Flaw>(kFlaws)>()...};
}

TEST(PoolOracle, AcceptsASimplePoolThatIsRight) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Findings findings = PoolDriver<ReferencePool<Flaw::none>>(simple_episode(seed)).run();
    for (const Violation& violation : findings.violations) {
      FAIL() << "seed " << seed << ": " << violation.law << ": " << violation.detail;
    }
    EXPECT_GT(findings.grants, 0);
  }
}

TEST(PoolOracle, RejectsEveryFlawByTheLawItBreaks) {
  const std::map<Flaw, std::string> expected{
      {Flaw::merges_with_minimum, "the waits order every earlier use of the bytes"},
      {Flaw::forgets_one_wait, "the waits order every earlier use of the bytes"},
      {Flaw::overlaps, "no two live grants overlap"},
      {Flaw::misaligns, "a grant begins and is sized in multiples of the alignment"},
      {Flaw::rounds_down, "a grant has at least the size asked for"},
      {Flaw::exceeds_limit, "reserved() never exceeds the limit"},
      {Flaw::skips_commit, "a grant lies in committed memory"},
      {Flaw::lies_about_class, "the class of a grant is true"},
      {Flaw::decommits_in_use, "memory in use is not decommitted"},
      {Flaw::miscounts, "statistics agree"},
      {Flaw::forgets_uses_of_unused, "the waits order every earlier use of the bytes"},
      {Flaw::repeats_ids, "a chunk id names one live chunk"},
      {Flaw::hides_pending, "a tick that is not done is pending"},
  };
  const auto broken = laws_broken_by_each(std::make_integer_sequence<int, kFlawCount>{});
  for (const auto& [flaw, law] : expected) {
    EXPECT_THAT(broken[static_cast<std::size_t>(flaw)], testing::Contains(law)) << "flaw " << static_cast<int>(flaw);
  }
}

TEST(PoolOracle, RejectsFirstFitWhenItAudits) {
  std::int64_t count = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Episode episode = simple_episode(seed);
    episode.audit = true;
    count += PoolDriver<ReferencePool<Flaw::none>>(episode).run().violation_count;
  }
  EXPECT_GT(count, 0);
}

// stream 0   --1--2------------3--        stream 1 waits for 0@2 and records 1@1; stream 2 waits for 1@1
// stream 1         `--1--                 so stream 2 is ordered after 0@2, and not after 0@3
// stream 2               `--1
TEST(StreamOrder, FollowsChainsOfWaitsAndNothingElse) {
  StreamOrder order(3);
  const StreamId a{0}, b{1}, c{2};
  order.record(a);
  const Tick a2 = order.record(a);
  order.wait(b, a2);
  const Tick b1 = order.record(b);
  const Tick a3 = order.record(a);
  order.wait(c, b1);
  EXPECT_TRUE(order.ordered(c, a2));
  EXPECT_FALSE(order.ordered(c, a3));
  EXPECT_TRUE(order.covers(order.record(c), a2));
  EXPECT_FALSE(order.covers(b1, a3));
  order.finish(b1);
  EXPECT_TRUE(order.done(a2));
  EXPECT_FALSE(order.done(a3));
}

TEST(ByteUses, KeepsEveryStretchApartAndJoinsEqualOnes) {
  ByteUses uses;
  const Tick tick{StreamId{1}, 7};
  const auto mark = [&](Clock& clock) { raise(clock, tick); };
  uses.change({0_B, 100_B}, mark);
  uses.change({200_B, 300_B}, mark);
  EXPECT_EQ(uses.size(), 2U);
  uses.change({50_B, 250_B}, mark);
  EXPECT_EQ(uses.size(), 1U);
  uses.erase({100_B, 150_B});
  std::vector<Range> seen;
  uses.each({90_B, 160_B}, [&](Range range, const Clock&) { seen.push_back(range); });
  EXPECT_EQ(seen, (std::vector<Range>{{90_B, 100_B}, {150_B, 160_B}}));
}

}  // namespace
}  // namespace spillway::shadow
