// Which steps a repertoire asks to see, whom it forgets, and how it looks at its plans when there is less room than there was.
#include "engine/repertoire.h"

#include <gtest/gtest.h>

#include "repertoire_steps.h"

namespace spillway {
namespace {

void learn_well(Repertoire& repertoire) {
  for (int length = 100; length < 118; ++length) repertoire.observe(recorded(length));
}

TEST(Repertoire, ARunThatGrowsIsSampledAgain) {
  Repertoire repertoire;
  learn_well(repertoire);
  (void)find(repertoire, 110, 1_GiB);
  EXPECT_FALSE(repertoire.wants_samples());

  EXPECT_EQ(find(repertoire, 400), nullptr);
  EXPECT_FALSE(repertoire.is_asked());  // too far from all that was seen
  EXPECT_TRUE(repertoire.wants_samples());
  (void)find(repertoire, 400);
  EXPECT_TRUE(repertoire.teaches());
  repertoire.observe(recorded(400));

  (void)find(repertoire, 400);
  EXPECT_TRUE(repertoire.is_asked());
  EXPECT_FALSE(repertoire.teaches());
}

// A size that is new may not come again soon: others are recorded in vain as far as their first ops, for a while.
TEST(Repertoire, SizesThatAreKnownAreNotRecorded) {
  Repertoire repertoire;
  learn_well(repertoire);
  (void)find(repertoire, 400);
  (void)repertoire.wants_samples();

  int begun = 0, whole = 0;
  for (int step = 0; step < 100; ++step) {
    (void)find(repertoire, 100 + step % 20);
    whole += repertoire.teaches() ? 1 : 0;
    begun += repertoire.wants_samples() ? 1 : 0;
  }

  EXPECT_EQ(whole, 0);
  EXPECT_GT(begun, 0);
  EXPECT_LT(begun, 10);
}

TEST(Repertoire, ManyStepsOfOneSizeDoNotTellOfOthers) {
  Repertoire repertoire;
  for (const int length : {100, 150}) {
    for (int i = 0; i < 10; ++i) repertoire.observe(recorded(length));
  }

  (void)find(repertoire, 130);
  EXPECT_TRUE(repertoire.wants_samples());
  (void)find(repertoire, 100);
  EXPECT_FALSE(repertoire.teaches());
  (void)find(repertoire, 120);
  EXPECT_TRUE(repertoire.teaches());
}

TEST(Repertoire, OfAKindThatWasSeenAtOneSizeNoOtherIsTold) {
  Repertoire repertoire;
  for (const int length : {100, 120}) repertoire.observe(recorded(length));
  for (int i = 0; i < 3; ++i) repertoire.observe(odd_one(400));
  const auto fits = [&](std::int64_t length) {
    (void)find(repertoire, length);
    return repertoire.find_script(1_GiB).fits;
  };

  EXPECT_TRUE(fits(400));
  EXPECT_FALSE(fits(800));
}

TEST(Repertoire, StepsThatLeaveTheirCourseAreSampledEverMoreRarely) {
  Repertoire repertoire;
  learn_well(repertoire);
  const auto count = [&](int steps) {
    int sampled = 0;
    for (int step = 0; step < steps; ++step) {
      (void)find(repertoire, 110);
      sampled += repertoire.wants_samples(/*strayed=*/true) ? 1 : 0;
    }
    return sampled;
  };

  EXPECT_EQ(count(200), 9);
  for (int i = 0; i < 2; ++i) repertoire.observe(odd_one(110));  // what was looked for
  EXPECT_EQ(count(4), 4);
}

std::shared_ptr<const RecordedSteps> beginning_with(std::uint64_t first, std::int64_t length) {
  RecordedSteps steps = *recorded(length);
  steps.shapes = {first, 12, 13};
  return std::make_shared<const RecordedSteps>(std::move(steps));
}

TEST(Repertoire, OfManyKindsThoseInUseStay) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  for (std::uint64_t other = 100; other < 140; ++other) repertoire.observe(beginning_with(other, 100));

  (void)find(repertoire, 170);
  EXPECT_TRUE(repertoire.is_asked());
}

TEST(Repertoire, TheKindThatWasNotMetForLongestGivesWay) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  const auto learn = [&](std::uint64_t first) {
    for (const int length : {100, 200}) repertoire.observe(beginning_with(first, length));
  };
  for (std::uint64_t other = 100; other < 115; ++other) learn(other);  // sixteen in all
  (void)find(repertoire, 170);

  learn(200);

  const auto knows = [&](std::uint64_t first) {
    repertoire.begin_step();
    repertoire.op(first, {{{Bytes{8 * 170}, 1_MiB}, {}, {Bytes{1024 * 170}}}});
    return repertoire.find_script(1_GiB).fits;
  };
  EXPECT_TRUE(knows(11));
  EXPECT_FALSE(knows(100));
  EXPECT_TRUE(knows(101));
  EXPECT_TRUE(knows(200));
}

TEST(Repertoire, WithManyKindsABeginningNobodyKnowsIsStillSampledNowAndThen) {
  Repertoire repertoire;
  for (std::uint64_t other = 100; other < 120; ++other) {
    for (const int length : {100, 200}) repertoire.observe(beginning_with(other, length));
  }

  int sampled = 0;
  for (int step = 0; step < 200; ++step) {
    repertoire.begin_step();
    repertoire.op(99, {});
    sampled += repertoire.wants_samples() ? 1 : 0;
  }

  EXPECT_EQ(sampled, 9);
}

// --- what is there now ------------------------------------------------------------------------------------------------

Repertoire::Found find_beside(Repertoire& repertoire, std::int64_t length, Bytes living, Bytes room, int steps = 4) {
  for (int step = 0; step < steps; ++step) repertoire.begin_step(living);
  repertoire.op(11, {{{Bytes{8 * length}, 1_MiB}, {}, {Bytes{1024 * length}}}});
  return repertoire.find_script(room);
}

TEST(Repertoire, WhoLivesOnBesideTheStepTakesItsRoom) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  const Bytes room = peak_of(*recorded(170)) + 500_KiB;

  EXPECT_TRUE(find_beside(repertoire, 170, 1_MiB, room).fits);
  const auto found = find_beside(repertoire, 170, 2_MiB, room);

  EXPECT_FALSE(found.fits);
  EXPECT_EQ(found.beside, 1_MiB);
  const auto wanted = Repertoire::foresee(*repertoire.next_order());
  ASSERT_TRUE(wanted);
  EXPECT_EQ(repertoire.begin_script(*wanted, room), room - 1_MiB - wanted->margin);
  EXPECT_TRUE(find_beside(repertoire, 170, 1_MiB, room, 1).fits);  // and once it is gone
}

TEST(Repertoire, WhatTheStepBeforeReturnedDoesNotLiveOn) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  const Bytes room = peak_of(*recorded(170)) + 500_KiB;
  for (int step = 0; step < 8; ++step) repertoire.begin_step(1_MiB);

  EXPECT_TRUE(find_beside(repertoire, 170, 2_MiB, room, 3).fits);
  EXPECT_FALSE(find_beside(repertoire, 170, 2_MiB, room, 1).fits);
}

TEST(Repertoire, AScriptForMoreRoomThanThereIsIsNotTakenAndAskedForAgain) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  const Bytes room = 2_MiB, less = 1800_KiB;
  EXPECT_EQ(find(repertoire, 170, room), nullptr);
  const auto early = next_wanted(repertoire, room);
  ASSERT_TRUE(early);
  repertoire.keep(script_for(*early));
  ASSERT_NE(find(repertoire, 170, room), nullptr);
  ASSERT_FALSE(repertoire.is_asked());

  EXPECT_EQ(find(repertoire, 170, less), nullptr);
  ASSERT_TRUE(repertoire.is_asked());
  const auto again = next_wanted(repertoire, less);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->order.at, early->order.at);
  EXPECT_EQ(find(repertoire, 170, less), nullptr);
  EXPECT_FALSE(repertoire.is_asked());  // it is under way
  repertoire.keep(script_for(*again));

  EXPECT_NE(find(repertoire, 170, less), nullptr);
  EXPECT_EQ(repertoire.script_count(), 1u);
}

// Where room comes and goes, plans are not made for ever.
TEST(Repertoire, AScriptIsMadeAgainForMoreRoomAFewTimes) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  (void)find(repertoire, 170, 1_MiB);
  repertoire.keep(script_for(*next_wanted(repertoire, 1_MiB)));

  int asked = 0;
  for (int i = 0; i < 40; ++i) {
    const Bytes room = i % 2 == 0 ? 2_MiB : 1_MiB;
    const bool there = find(repertoire, 170, room) != nullptr;
    EXPECT_TRUE(there || room == 1_MiB);
    if (!repertoire.is_asked()) continue;
    ++asked;
    repertoire.keep(script_for(*next_wanted(repertoire, room)));
  }

  EXPECT_EQ(asked, 8);
}

// Each takes the place of the one before: others do not have to go for it.
TEST(Repertoire, AScriptThatIsMadeAgainIsNoOther) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));

  Bytes room = 2_MiB;
  for (int i = 0; i < 70; ++i, room = room * 97 / 100) {
    (void)find(repertoire, 170, room);
    ASSERT_TRUE(repertoire.is_asked());
    repertoire.keep(script_for(*next_wanted(repertoire, room)));
  }

  EXPECT_EQ(repertoire.script_count(), 1u);
  EXPECT_EQ(repertoire.turnover(), 0);
}

// As when lists are cut otherwise in another budget: what was known of a kind is of no use for a while.
TEST(RepertoireUpkeep, AKindWhoseStepsGoAnotherWayNowStandsBehindTheOthers) {
  Repertoire repertoire;
  learn_well(repertoire);
  for (const int length : {100, 240}) repertoire.observe(odd_one(length));
  const auto kind_of = [&](std::int64_t length) {
    (void)find(repertoire, length);
    return next_wanted(repertoire, kNoRoom)->order.steps->shapes.back();
  };
  ASSERT_EQ(kind_of(110), 13u);

  for (int step = 0; step < 2; ++step) {
    (void)find(repertoire, 110);
    repertoire.note_course(/*followed=*/false);
  }
  EXPECT_EQ(kind_of(112), 99u);
}

// Thirty activations of 400 bytes a token, read in reverse.
std::shared_ptr<const RecordedSteps> deep(std::int64_t length) {
  testing::StepMaker maker;
  RecordedSteps steps;
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("ids", Bytes{8 * length}, StorageKind::input);
    for (int i = 0; i < 30; ++i) maker.make("a" + std::to_string(i), Bytes{400 * length}, {"ids"});
    for (int i = 30; i-- > 0;) {
      maker.op("back", {.in = {"a" + std::to_string(i)}});
      maker.death("a" + std::to_string(i));
    }
    maker.death("ids");
    maker.end();
  }
  steps.trace = maker.trace();
  for (std::uint64_t op = 1; op <= 60; ++op) steps.keys.push_back(op), steps.shapes.push_back(10 + op);
  return std::make_shared<const RecordedSteps>(std::move(steps));
}

// By its script for 200 tokens in 2 MiB twenty of thirty activations stay, 1,600,000 bytes.
class DeepStep : public ::testing::Test {
 protected:
  Repertoire repertoire;

  void SetUp() override {
    for (const int length : {100, 200, 150}) repertoire.observe(deep(length));
    const auto wanted = next_wanted(repertoire, 2_MiB);
    ASSERT_TRUE(wanted);
    Plan plan;
    for (const Gap& gap : find_gaps(*wanted->step)) {
      if (gap.ends == GapEnd::access && gap.begin <= 10 && wanted->step->storages()[gap.storage].size == 80000_B) plan.gaps.push_back({.gap = gap, .remedy = Remedy::drop});
    }
    ASSERT_EQ(plan.gaps.size(), 10u);
    repertoire.keep(std::make_shared<const Script>(*wanted->order.steps, *wanted->step, plan, 2_MiB, nullptr, std::vector<OpPlace>{}, /*any_size=*/true));
  }

  std::optional<std::ptrdiff_t> spared_for(std::int64_t length, Bytes room = 2_MiB) {
    repertoire.begin_step();
    repertoire.op(11, {{{Bytes{8 * length}}, {}, {Bytes{400 * length}}}});
    const Repertoire::Found found = repertoire.find_script(room);
    EXPECT_FALSE(found.reused);
    return found.script ? std::optional(std::ranges::count(found.spared, true)) : std::nullopt;
  }
};

// Of 185 there is room for one more.
TEST_F(DeepStep, AScriptForALittleMoreIsTakenWithoutWhatIsInVain) {
  EXPECT_EQ(spared_for(200), 0);
  EXPECT_EQ(spared_for(185), 1);
  EXPECT_EQ(spared_for(185), 1);  // known by now
  repertoire.observe(deep(185));
  EXPECT_EQ(spared_for(185), 1);
}

TEST_F(DeepStep, WhereThereIsMoreRoomThanItWasMadeForLessLeaves) {
  EXPECT_EQ(spared_for(200), 0);
  EXPECT_EQ(spared_for(200, 2_MiB + 80000_B), 1);
  EXPECT_EQ(spared_for(200, 2_MiB + 160000_B), 2);
}

TEST_F(DeepStep, ScriptsStayWhenTheRoomChangesAndGoWhenThePolicyDoes) {
  repertoire.change_room();
  EXPECT_EQ(spared_for(185), 1);
  repertoire.forget_scripts();
  EXPECT_EQ(spared_for(185), std::nullopt);
}

}  // namespace
}  // namespace spillway
