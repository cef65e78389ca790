#include "trace/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/trace_samples.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Name kOpName{NameId{0}, "op"};

// The complaints about a trace of these events.
std::vector<std::string> complaints(std::vector<Event> events) {
  std::vector<std::string> texts;
  for (const TraceProblem& problem : check_trace(Trace{.events = std::move(events)})) texts.push_back(problem.what);
  return texts;
}

Op op(std::uint32_t index, std::vector<StorageId> inputs = {}) {
  return {.index = {index}, .name = {0}, .inputs = std::move(inputs)};
}

TEST(CheckTrace, FindsNothingWrongWithALawfulOne) { EXPECT_THAT(complaints(testing::one_of_each()), IsEmpty()); }

TEST(CheckTrace, SaysWhichEventBreaksTheLaw) {
  const auto problems = check_trace(Trace{.events = {Fact{"a", "b"}, StorageDeath{{3}, 1_ns}}});
  EXPECT_THAT(problems, ElementsAre(TraceProblem{1, "death names storage 3, which is not alive"}));
}

TEST(CheckTrace, WantsStoragesNumberedByBirth) {
  EXPECT_THAT(complaints({StorageBirth{.storage = {1}}}), ElementsAre("storage 1 is born where 0 is next"));
  EXPECT_THAT(complaints({StorageBirth{}}), ElementsAre("a storage without an id is born"));
  EXPECT_THAT(complaints({StorageBirth{.storage = {0}}, StorageBirth{.storage = {0}}}),
              ElementsAre("storage 0 is born while it lives"));
}

TEST(CheckTrace, WantsStoragesUsedBetweenBirthAndDeathAndDeadOnce) {
  EXPECT_THAT(complaints({kOpName, op(0, {{0}})}), ElementsAre("input names storage 0, which is not alive"));
  EXPECT_THAT(complaints({kOpName, StorageBirth{.storage = {0}}, StorageDeath{{0}, 1_ns}, op(0, {{0}})}),
              ElementsAre(HasSubstr("not alive")));
  EXPECT_THAT(complaints({StorageBirth{.storage = {0}}, StorageDeath{{0}, 1_ns}, StorageDeath{{0}, 2_ns}}),
              ElementsAre(HasSubstr("death")));
  EXPECT_THAT(complaints({StorageRole{{0}, StorageKind::input}}), ElementsAre(HasSubstr("role")));
  EXPECT_THAT(complaints({Move{.storage = {0}}}), ElementsAre(HasSubstr("move")));
  EXPECT_THAT(complaints({Recompute{.storage = {0}}}), ElementsAre(HasSubstr("recompute")));
}

TEST(CheckTrace, WantsOpsToGoForwardUnderAnAnnouncedName) {
  EXPECT_THAT(complaints({kOpName, op(1), op(1)}), ElementsAre("op 1 comes after op 1"));
  EXPECT_THAT(complaints({op(0)}), ElementsAre("name is name 0, which was not announced"));
  EXPECT_THAT(complaints({Op{.index = {0}}}), ElementsAre("op 0 has no name"));
}

TEST(CheckTrace, WantsAReasonOnlyWhereAReplayIsIllegal) {
  EXPECT_THAT(complaints({kOpName, Op{.index = {0}, .name = {0}, .replayable = true, .why_not = {0}}}),
              ElementsAre(HasSubstr("why not")));
}

TEST(CheckTrace, WantsStepsOfAJobOneAfterAnother) {
  const JobId a{0}, b{1};
  EXPECT_THAT(complaints({StepBegin{{0}, a}, StepBegin{{0}, b}, StepEnd{{0}, b}, StepEnd{{0}, a}}), IsEmpty())
      << "jobs may overlap";
  EXPECT_THAT(complaints({StepBegin{{0}, a}, StepBegin{{1}, a}}),
              ElementsAre("step 1 begins before step 0 of its job ended"));
  EXPECT_THAT(complaints({StepEnd{{0}, a}}), ElementsAre("step 0 ends without having begun"));
  EXPECT_THAT(complaints({StepBegin{{1}, a}, StepEnd{{1}, a}, StepBegin{{1}, a}}),
              ElementsAre("step 1 begins after step 1 of its job"));
}

TEST(CheckTrace, WantsAnOpInsideTheStepItNames) {
  Op inside = op(0);
  inside.job = {0};
  inside.step = {0};
  EXPECT_THAT(complaints({kOpName, StepBegin{{0}, {0}}, inside, StepEnd{{0}, {0}}}), IsEmpty());
  EXPECT_THAT(complaints({kOpName, StepBegin{{0}, {0}}, StepEnd{{0}, {0}}, inside}),
              ElementsAre("op 0 runs in step 0, which is not open"));
}

TEST(CheckTrace, RefusesNegativeAndAbsurdAmounts) {
  EXPECT_THAT(complaints({Stall{.duration = {-1}}}), ElementsAre("duration is negative: -1"));
  EXPECT_THAT(complaints({Restart{{-5}}}), ElementsAre("at is negative: -5"));
  EXPECT_THAT(complaints({StorageBirth{.storage = {0}, .size = {INT64_MAX}}}), ElementsAre(HasSubstr("absurd")));
  EXPECT_THAT(complaints({Release{.range = {5_B, 4_B}}}), ElementsAre("the range [5, 4) ends before it begins"));
}

TEST(CheckTrace, BeginsTheLivingAnewAfterARestart) {
  EXPECT_THAT(complaints({StorageBirth{.storage = {0}}, Restart{}, StorageBirth{.storage = {0}},
                          StorageBirth{.storage = {90}}}),
              IsEmpty());
  EXPECT_THAT(complaints({StorageBirth{.storage = {0}}, Restart{}, StorageDeath{{0}, 1_ns}}),
              ElementsAre(HasSubstr("not alive")));
}

TEST(CheckTrace, StopsAfterAsManyProblemsAsAsked) {
  const std::vector<Event> bad(50, StorageDeath{{0}, 1_ns});
  EXPECT_EQ(check_trace(Trace{.events = bad}, 7).size(), 7u);
}

}  // namespace
}  // namespace spillway
