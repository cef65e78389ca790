#include "engine/opening.h"

#include <gtest/gtest.h>

#include <utility>

#include "liveness/liveness.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using Keys = std::vector<std::uint64_t>;

Opening opened(const Keys& keys) {
  Opening opening(true);
  for (const std::uint64_t key : keys) opening.add({key, key});
  return opening;
}

// For a step of these ops, which begins in another where `entry` says.
KeptRun kept(const Keys& planned, std::vector<Entry> entries) {
  testing::StepMaker maker;
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    for (std::size_t op = 0; op < planned.size(); ++op) maker.op("op", {});
    maker.end();
  }
  const RecordedSteps steps{.trace = maker.trace(), .keys = planned, .shapes = planned, .lean = {}, .timed = {}};
  const Liveness step(steps.trace, *find_step(steps.trace, StepRecorder::kStep));
  return {.key = {1, 2}, .steps = {}, .script = std::make_shared<const Script>(steps, step, Plan{}, 1_GiB), .limit = 1_GiB, .entries = std::move(entries)};
}

TEST(Opening, TellsRunsApartByTheirOpsAndByTheirSizes) {
  Opening one, other_sizes, other_ops, swapped;
  for (const OpKey key : {OpKey{1, 10}, OpKey{2, 20}}) one.add(key);
  for (const OpKey key : {OpKey{1, 11}, OpKey{2, 20}}) other_sizes.add(key);
  for (const OpKey key : {OpKey{1, 10}, OpKey{3, 20}}) other_ops.add(key);
  for (const OpKey key : {OpKey{2, 20}, OpKey{1, 10}}) swapped.add(key);

  EXPECT_EQ(one.shape(), other_sizes.shape());
  EXPECT_NE(one.sized(), other_sizes.sized());
  EXPECT_NE(one.shape(), other_ops.shape());
  EXPECT_NE(one.shape(), swapped.shape());
}

TEST(Opening, RunsThatBeginAlikeHaveTheSameBeginWhateverComesAfter) {
  Keys one, other;
  for (std::uint64_t op = 0; op < Opening::kBegin; ++op) one.push_back(op), other.push_back(op);
  one.push_back(100), other.push_back(200);

  EXPECT_EQ(opened(one).sized().begin, opened(other).sized().begin);
  EXPECT_NE(opened(one).sized().whole, opened(other).sized().whole);
}

// Where, in the first step, and in the planned one.
std::vector<std::pair<std::uint64_t, std::uint64_t>> places(const Keys& first, const Keys& planned) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const Entry& entry : find_entries(first, planned)) places.emplace_back(entry.at, entry.next);
  return places;
}

using Places = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// first    1 2 3 | 10 11 12 13 | 40 | 14 15      the model is made; the optimizer makes what it keeps
// planned     99 | 10 11 12 13      | 14 15      99: the loss of the step before is told
TEST(FindEntries, AreWhereThePlannedStepBeginsAndWhereItGoesOn) {
  EXPECT_EQ(places({1, 2, 3, 10, 11, 12, 13, 40, 14, 15}, {99, 10, 11, 12, 13, 14, 15}), (Places{{3, 1}, {8, 5}}));
}

// first    10 11 12      13 14 15
// planned  10 11 12 50 51 13 14 15      gradients are there already, and are added to
TEST(FindEntries, WhatThePlannedStepAloneDoesIsLeftOut) {
  EXPECT_EQ(places({10, 11, 12, 13, 14, 15}, {10, 11, 12, 50, 51, 13, 14, 15}), (Places{{0, 0}, {3, 5}}));
}

// Gradients of a large model are set to zero one by one.
TEST(FindEntries, TheBeginMayBeFarInThePlannedStep) {
  Keys first{1, 2}, planned;
  for (std::uint64_t op = 0; op < 300; ++op) planned.push_back(7);
  for (std::uint64_t op = 100; op < 400; ++op) first.push_back(op), planned.push_back(op);
  EXPECT_EQ(places(first, planned), (Places{{2, 300}}));
}

TEST(FindEntries, OfStretchesAsLongTheFirstIsTaken) { EXPECT_EQ(places({7, 7, 7, 7, 7}, {7, 7, 7}), (Places{{0, 0}})); }

TEST(FindEntries, AreNoneWhereStepsHaveLittleInCommon) {
  EXPECT_EQ(places({1, 2, 3, 4, 5}, {9, 9, 9, 9, 9, 1, 9, 9}), Places{});
  EXPECT_EQ(places({1, 2, 3, 4, 5}, {1, 2, 3, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}), Places{});
  EXPECT_EQ(places({1, 2, 3, 4, 5}, {6, 7}), Places{});
  EXPECT_EQ(places({}, {6, 7}), Places{});
  EXPECT_EQ(places({1}, {}), Places{});
}

class JointTest : public ::testing::Test {
 protected:
  const Keys first{1, 2, 3, 10, 11, 12, 13, 40, 14, 15}, planned{99, 10, 11, 12, 13, 14, 15};
  const std::vector<Entry> entries = find_entries(first, planned);

  // How the plan goes on after these ops with one more.
  [[nodiscard]] std::optional<std::size_t> joint_after(const Keys& before, std::uint64_t key) const {
    Opening opening = opened(before);
    opening.take_in({kept(planned, entries)});
    const auto joint = opening.find_joint({key, key});
    return joint ? std::optional(joint->next) : std::nullopt;
  }
};

TEST_F(JointTest, IsWhereThePlannedStepBegins) { EXPECT_EQ(joint_after({1, 2, 3}, 10), 1u); }

TEST_F(JointTest, IsNotBeforeThat) { EXPECT_EQ(joint_after({1, 2}, 3), std::nullopt); }

TEST_F(JointTest, IsLaterWhereThePlanIsThereLater) { EXPECT_EQ(joint_after({1, 2, 3, 10, 11}, 12), 3u); }

TEST_F(JointTest, IsWhereItGoesOnAfterSomethingElse) { EXPECT_EQ(joint_after({1, 2, 3, 10, 11, 12, 13, 40}, 14), 5u); }

TEST_F(JointTest, IsLookedForLateOnlyOnce) {
  Opening opening = opened({1, 2, 3});
  opening.take_in({kept(planned, entries)});
  EXPECT_FALSE(opening.find_joint({77, 77}).has_value());
  opening.add({77, 77});
  EXPECT_FALSE(opening.find_joint({11, 11}).has_value());
}

TEST_F(JointTest, IsNowhereInAStepThatWentAnotherWay) {
  EXPECT_EQ(joint_after({1, 2, 4}, 10), std::nullopt);
  EXPECT_EQ(joint_after({1, 2, 3}, 11), std::nullopt);
  EXPECT_EQ(joint_after({1, 2, 3, 10, 77}, 12), std::nullopt);
  EXPECT_EQ(joint_after({1, 2, 3, 10, 11, 12, 13}, 40), std::nullopt);
  EXPECT_EQ(joint_after(first, 16), std::nullopt);  // its end is behind
}

TEST_F(JointTest, EntriesThatMakeNoSenseLeadNowhere) {
  for (const Entry hostile : {Entry{.at = UINT64_MAX, .next = 0, .sum = 0}, Entry{.at = 3, .next = UINT64_MAX, .sum = entries[0].sum}, Entry{.at = 0, .next = UINT64_MAX - 1, .sum = 0}}) {
    Opening opening = opened({1, 2, 3});
    opening.take_in({kept(planned, {hostile})});
    EXPECT_FALSE(opening.find_joint({10, 10}).has_value());
  }
}

}  // namespace
}  // namespace spillway
