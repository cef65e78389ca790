#include "trace/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/trace_samples.h"
#include "trace/reader.h"

namespace spillway {
namespace {

TEST(Summary, CountsWhatHappened) {
  const TraceSummary sums = summarize(Trace{.events = testing::one_of_each()});
  EXPECT_EQ(sums.whole_steps, 1u);
  EXPECT_EQ(sums.summarized_steps, 1u);
  EXPECT_EQ(sums.ops, 1u);
  EXPECT_EQ(sums.storages, 2u);
  EXPECT_EQ(sums.by_kind[static_cast<std::size_t>(StorageKind::activation)].storages, 1u)
      << "the role it got later counts";
  EXPECT_EQ(sums.born, 4608_B);
  EXPECT_EQ(sums.peak_live, 4608_B);
  EXPECT_EQ(sums.peak, 5120_B);
  EXPECT_EQ(sums.moved_out, 4096_B);
  EXPECT_EQ(sums.moved_in, 0_B);
  EXPECT_EQ(sums.recomputed, 1u);
  EXPECT_EQ(sums.stall, 1_us);
}

TEST(Summary, CountsAStorageOnceThoughARestartAnnouncesItAgain) {
  const StorageBirth birth{.storage = {0}, .size = 5_B};
  EXPECT_EQ(summarize(Trace{.events = {birth, Restart{}, birth}}).born, 5_B);
}

TEST(Summary, OfABoundedRunKnowsThePeakOfTheStepsBetween) {
  const StepSummary between{.step = {1}, .job = {0}, .peak = 9_MiB};
  EXPECT_EQ(summarize(Trace{.events = {StorageBirth{.storage = {0}, .size = 5_B}, between}}).peak, 9_MiB);
}

TEST(Summary, IsATableThatBeginsWithTheFacts) {
  const std::string table = to_table(Trace{.events = testing::one_of_each()});
  EXPECT_THAT(table, ::testing::StartsWith("model                                   tiny\n"));
  EXPECT_THAT(table, ::testing::HasSubstr("peak live                               4608 bytes\n"));
}

}  // namespace
}  // namespace spillway
