#include "trace/standing.h"

#include <gtest/gtest.h>

#include "support/trace_samples.h"

namespace spillway {
namespace {

void feed(Standing& standing, const std::vector<Event>& events) {
  for (const Event& event : events) std::visit([&](const auto& one) { standing.observe(one); }, event);
}

// event       birth 0   op        move 0 out   death 0
// device      4 MiB     4 MiB     0            0
// with op               +3 MiB
TEST(Standing, FollowsDeviceBytesThroughBirthsMovesAndDeaths) {
  Standing standing;
  feed(standing, {StorageBirth{.storage = {0}, .size = 4_MiB}, Op{.index = {0}, .transient = 3_MiB, .inputs = {{0}}}});
  EXPECT_EQ(standing.device(), 4_MiB);
  EXPECT_EQ(standing.peak_live(), 4_MiB);
  EXPECT_EQ(standing.peak(), 7_MiB);
  feed(standing, {Move{.storage = {0}, .size = 4_MiB}});
  EXPECT_EQ(standing.device(), 0_B);
  feed(standing, {StorageDeath{{0}, 1_ns}});
  EXPECT_EQ(standing.device(), 0_B);
  EXPECT_EQ(standing.living(), 0u);
}

TEST(Standing, CountsATransientFromBeforeTheOutputsOfItsOp) {
  Standing standing;
  feed(standing, {StorageBirth{.storage = {0}, .size = 1_MiB}, Op{.index = {0}, .inputs = {{0}}},
                  StorageBirth{.storage = {1}, .size = 2_MiB}, Op{.index = {1}, .transient = 5_MiB, .outputs = {{1}}}});
  EXPECT_EQ(standing.peak(), 6_MiB);
}

TEST(Standing, BringsBackWhatIsFetchedOrRecomputed) {
  Standing standing;
  feed(standing, {StorageBirth{.storage = {0}, .size = 1_MiB, .tier = TraceTier::host},
                  StorageBirth{.storage = {1}, .size = 2_MiB}, Move{.storage = {1}, .to = TraceTier::nowhere}});
  EXPECT_EQ(standing.device(), 0_B);
  feed(standing, {Move{.storage = {0}, .from = TraceTier::host, .to = TraceTier::device}, Recompute{.storage = {1}}});
  EXPECT_EQ(standing.device(), 3_MiB);
}

TEST(Standing, SumsUpAStepByItsJob) {
  const JobId job{4};
  Standing standing;
  feed(standing,
       {StepBegin{{9}, job, 100_ns}, StorageBirth{.storage = {0}, .size = 1_MiB, .job = job},
        Op{.index = {0}, .job = job}, Op{.index = {1}, .job = {5}}, Move{.storage = {0}, .size = 1_MiB},
        Move{.storage = {0}, .from = TraceTier::host, .to = TraceTier::device, .size = 1_MiB},
        Move{.storage = {0}, .size = 1_MiB, .clean = true},
        Move{.storage = {0}, .to = TraceTier::nowhere, .size = 1_MiB}, Recompute{.storage = {0}, .duration = 7_ns},
        Stall{.cause = StallCause::host_room, .job = job, .duration = 3_ns}, StepEnd{{9}, job, 600_ns}});
  const StepSummary expected{.step = {9},
                             .job = job,
                             .ops = 1,
                             .recomputed = 1,
                             .peak = 1_MiB,
                             .moved_out = 1_MiB,
                             .moved_in = 1_MiB,
                             .at = 100_ns,
                             .duration = 500_ns,
                             .recompute = 7_ns,
                             .stall = {0_ns, 0_ns, 3_ns, 0_ns}};
  EXPECT_EQ(standing.take_summaries(), std::vector<StepSummary>{expected});
  EXPECT_TRUE(standing.take_summaries().empty());
}

TEST(Standing, StopsAtTheEndOfTheScaleInsteadOfOverflowing) {
  Standing standing;
  feed(standing, {StorageBirth{.storage = {0}, .size = {INT64_MAX}}, StorageBirth{.storage = {1}, .size = {INT64_MAX}},
                  StorageDeath{{0}, 1_ns}, StorageBirth{.storage = {2}, .size = {INT64_MIN}}, StorageDeath{{2}, 1_ns},
                  Op{.index = {0}, .transient = {INT64_MAX}, .outputs = {{1}}}});
  EXPECT_EQ(standing.peak_live(), Bytes{INT64_MAX});
}

TEST(Standing, KeepsTheLastWordOnAFactAndNoEndlessList) {
  Standing standing;
  feed(standing, {Fact{"budget", "8GiB"}, Fact{"budget", "4GiB"}});
  for (int i = 0; i < 5000; ++i) standing.observe(Fact{std::to_string(i), ""});
  std::vector<Event> told;
  standing.announce([&](const auto& event) { told.emplace_back(event); });
  EXPECT_EQ(told[1], Event(Fact{"budget", "4GiB"}));
  EXPECT_EQ(told.size(), 1 + 1000u);
}

TEST(Standing, ForgetsDecisionsWhoseOpsAreOver) {
  Standing standing;
  standing.observe(PlanMade{.job = JobId{0}});
  standing.observe(Decision{.storage = StorageId{7}, .job = JobId{0}});  // holds as long as the plan
  for (std::uint32_t op = 0; op < 50'000; ++op) {
    standing.observe(Decision{.storage = StorageId{op}, .at = OpIndex{op}, .until = OpIndex{op + 10}, .job = JobId{0}});
  }
  std::vector<Decision> told;
  standing.announce([&](const auto& event) {
    if constexpr (std::is_same_v<std::decay_t<decltype(event)>, Decision>) told.push_back(event);
  });
  EXPECT_LE(told.size(), 1000u);
  EXPECT_EQ(told.front().storage, StorageId{7});
  EXPECT_EQ(told.back().storage, StorageId{49'999});
}

// What it announces is enough to be told the same again.
TEST(Standing, AnnouncesItselfCompletely) {
  Standing standing;
  std::vector<Event> events = testing::one_of_each();
  events.pop_back();  // the restart
  feed(standing, events);
  std::vector<Event> once, twice;
  standing.announce([&](const auto& event) { once.emplace_back(event); });
  Standing again;
  feed(again, once);
  again.announce([&](const auto& event) { twice.emplace_back(event); });
  EXPECT_EQ(once, twice);
  EXPECT_EQ(again.device(), standing.device());
}

}  // namespace
}  // namespace spillway
