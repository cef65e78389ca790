#include "engine/repertoire.h"

#include <gtest/gtest.h>

#include "liveness/curve.h"
#include "liveness/gaps.h"
#include "repertoire_steps.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

TEST(Repertoire, StepsOfOneSizeNeedOneScript) {
  Repertoire repertoire;
  for (int i = 0; i < 4; ++i) repertoire.observe(recorded(100));

  EXPECT_FALSE(repertoire.varies());
  repertoire.begin_step();
  EXPECT_FALSE(repertoire.watches());
}

TEST(Repertoire, WhatWasAskedForIsThereTheNextTime) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  ASSERT_TRUE(repertoire.varies());

  EXPECT_EQ(find(repertoire, 170), nullptr);
  EXPECT_TRUE(repertoire.is_asked());
  const auto wanted = next_wanted(repertoire, kNoRoom);
  ASSERT_TRUE(wanted);
  repertoire.keep(script_for(*wanted));

  EXPECT_NE(find(repertoire, 170), nullptr);
  EXPECT_EQ(find(repertoire, 100), nullptr);
  EXPECT_EQ(repertoire.script_count(), 1u);
}

TEST(Repertoire, APlanIsMadeForNoLessThanTheStepNeeds) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  (void)find(repertoire, 170);

  const auto wanted = next_wanted(repertoire, kNoRoom);

  ASSERT_TRUE(wanted);
  EXPECT_GE(live_curve(*wanted->step).peak, peak_of(*recorded(170)));
  EXPECT_LE(live_curve(*wanted->step).peak, peak_of(*recorded(190)));
}

TEST(Repertoire, WhatIsNoLongerWantedIsNotBegun) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  const auto wanted = Repertoire::foresee(*repertoire.next_order());
  ASSERT_TRUE(wanted);

  repertoire.forget_scripts();

  EXPECT_FALSE(repertoire.begin_script(*wanted, kNoRoom));
}

// A kind that was told is another thread's to read while the next step is studied.
TEST(Repertoire, ALessonChangesNothingUntilItIsTakenIn) {
  Repertoire repertoire;
  for (const int length : {100, 200}) repertoire.observe(recorded(length));
  const auto before = Repertoire::foresee(*repertoire.next_order());
  ASSERT_TRUE(before);
  const auto samples = before->order.kind->observed();

  auto lesson = repertoire.study(recorded(300));

  ASSERT_TRUE(lesson);
  EXPECT_EQ(before->order.kind->observed(), samples);
  EXPECT_EQ(lesson->kind->observed(), samples + 1);
  repertoire.take_in(*lesson);
  EXPECT_EQ(lesson->kind->observed(), samples);  // what was known before is the caller's to take down
  EXPECT_EQ(repertoire.next_order()->kind->observed(), samples + 1);
}

// The training thread needs one to foresee in, and copying takes longer than foreseeing.
TEST(Repertoire, ACopyOfTheStepToForeseeInComesWithTheLesson) {
  Repertoire repertoire;
  auto first = repertoire.study(recorded(100)), second = repertoire.study(recorded(200));
  ASSERT_TRUE(first && first->scratch && second && second->scratch);
  const Liveness* copy = second->scratch.get();
  EXPECT_NE(copy, &second->kind->model());
  EXPECT_EQ(copy->op_count(), second->kind->model().op_count());
  const Liveness* earlier = first->scratch.get();

  repertoire.take_in(*first);
  repertoire.take_in(*second);

  EXPECT_EQ(first->scratch, nullptr);
  EXPECT_EQ(second->scratch.get(), earlier);  // it is the caller's to take down
}

TEST(Repertoire, FillsTheRangeOfSizesByItself) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));

  int made = 0;
  while (const auto wanted = next_wanted(repertoire, kNoRoom)) {
    if (!wanted->order.quick) break;
    repertoire.keep(script_for(*wanted));
    ASSERT_LT(++made, 40);
  }

  EXPECT_GT(made, 5);
  for (int length = 100; length <= 200; length += 7) EXPECT_NE(find(repertoire, length), nullptr) << length;
}

TEST(Repertoire, AStepThatFitsNeedsNoScript) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  repertoire.begin_step();
  repertoire.op(11, {{{Bytes{8 * 120}, 1_MiB}, {}, {Bytes{1024 * 120}}}});

  EXPECT_TRUE(repertoire.find_script(1_GiB).fits);
  EXPECT_FALSE(repertoire.is_asked());
  EXPECT_FALSE(next_wanted(repertoire, 1_GiB));
}

// Found by what was foreseen for a little more: the forecast, which takes the training thread longest, is not asked again.
TEST(Repertoire, WhatIsKnownToFitIsNotForeseenAgain) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  EXPECT_FALSE(next_wanted(repertoire, 1_GiB));  // every size in the range was looked at, and has room

  EXPECT_EQ(find(repertoire, 170), nullptr);  // there is no script for what has room
  EXPECT_TRUE(repertoire.find_script(1_GiB).fits);
  EXPECT_FALSE(repertoire.find_script(kNoRoom).fits);
}

TEST(Repertoire, WhereALargerSizeFitsASmallerOneDoes) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  const Bytes room = peak_of(*recorded(170));
  const auto found_for = [&](std::int64_t length, Bytes within) {
    (void)find(repertoire, length, within);
    return repertoire.find_script(within).fits;
  };

  EXPECT_TRUE(found_for(170, room));
  EXPECT_TRUE(found_for(140, room));
  EXPECT_FALSE(found_for(171, room));
  EXPECT_FALSE(found_for(170, room - 1_B));  // what was known was of more room
}

// As many tokens in fewer rows are less of one coordinate and more scores, which come too late to be one.
std::shared_ptr<const RecordedSteps> in_rows(std::int64_t rows, std::int64_t length) {
  constexpr std::uint64_t kMore = 260;
  StepMaker maker;
  maker.birth("weights", 1_MiB, StorageKind::parameter);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("labels", Bytes{8 * rows}, StorageKind::input);
    maker.birth("ids", Bytes{8 * rows * length}, StorageKind::input);
    maker.make("hidden", Bytes{256 * rows * length}, {"ids", "labels", "weights"});
    for (std::uint64_t i = 0; i < kMore; ++i) maker.op("more", {.in = {"hidden"}, .write = {"weights"}});
    maker.make("scores", Bytes{64 * rows * length * length}, {"hidden"});
    maker.op("back", {.in = {"hidden", "scores"}, .write = {"weights"}});
    for (const char* name : {"scores", "hidden", "ids", "labels"}) maker.death(name);
    maker.end();
  }
  RecordedSteps steps{.trace = maker.trace(), .keys = {}, .shapes = {}, .lean = {}};
  for (std::uint64_t op = 11; op < 11 + kMore + 3; ++op) steps.keys.push_back(op), steps.shapes.push_back(op);
  return std::make_shared<const RecordedSteps>(std::move(steps));
}

void learn_rows(Repertoire& repertoire) {
  for (const auto& [rows, length] : std::vector<std::pair<int, int>>{{4, 100}, {8, 60}, {2, 140}, {16, 70}, {5, 130}, {3, 90}, {10, 110}, {6, 80}}) {
    repertoire.observe(in_rows(rows, length));
  }
}

Repertoire::Found find_rows(Repertoire& repertoire, std::int64_t rows, std::int64_t length, Bytes room) {
  repertoire.begin_step();
  repertoire.op(11, {{{Bytes{8 * rows * length}, Bytes{8 * rows}, 1_MiB}, {}, {Bytes{256 * rows * length}}}});
  EXPECT_FALSE(repertoire.watches());
  return repertoire.find_script(room);
}

TEST(Repertoire, FewerAndLongerRowsAreNotSaidToFit) {
  Repertoire repertoire;
  learn_rows(repertoire);
  const auto fits = [&](std::int64_t rows, std::int64_t length) { return find_rows(repertoire, rows, length, 8'000'000_B).fits; };

  EXPECT_TRUE(fits(16, 60));
  EXPECT_TRUE(fits(16, 60));
  EXPECT_FALSE(fits(7, 132));  // 924 tokens in 7 rows, instead of 960 in 16
  EXPECT_FALSE(fits(6, 140));
}

// What was foreseen for more of both is of shorter rows, which take less.
TEST(Repertoire, WhatFitsInItsCellIsNotSaidToFitForThat) {
  Repertoire repertoire;
  learn_rows(repertoire);
  const Bytes room = 6'000'000_B;
  int fitting = 0, close = 0;
  for (std::int64_t rows = 3; rows <= 14; ++rows) {
    for (std::int64_t length = 64; length <= 138; ++length) {
      const Bytes peak = peak_of(*in_rows(rows, length));
      if (peak < room * 8 / 10 || peak > room * 12 / 10) continue;
      (void)find_rows(repertoire, rows, length, kNoRoom);
      while (repertoire.is_asked()) (void)next_wanted(repertoire, room);
      const bool fits = find_rows(repertoire, rows, length, room).fits;
      EXPECT_TRUE(!fits || peak <= room) << rows << " x " << length;
      ++(fits ? fitting : close);
    }
  }
  EXPECT_GT(fitting, 50);
  EXPECT_GT(close, 50);
}

TEST(Repertoire, APlanIsForWhateverOfItsCellTakesMost) {
  Repertoire repertoire;
  learn_rows(repertoire);
  for (std::int64_t rows = 3; rows <= 14; ++rows) {
    for (std::int64_t length = 64; length <= 138; length += 5) {
      (void)find_rows(repertoire, rows, length, kNoRoom);
      if (!repertoire.is_asked()) continue;  // it is of a cell that was looked at
      const auto wanted = Repertoire::foresee(*repertoire.next_order());
      ASSERT_TRUE(wanted);
      EXPECT_GE(wanted->peak, peak_of(*in_rows(rows, length))) << rows << " x " << length;
    }
  }
}

// More sizes than there is room for: those in use stay, and whoever plans may take its time.
TEST(Repertoire, WhatIsUsedStaysWhereOthersComeAndGo) {
  Repertoire repertoire;
  learn_rows(repertoire);
  const auto look = [&](std::int64_t rows, std::int64_t length) { return find_rows(repertoire, rows, length, kNoRoom); };
  const auto plan = [&] {
    const auto wanted = next_wanted(repertoire, kNoRoom);
    ASSERT_TRUE(wanted);
    repertoire.keep(script_for(*wanted));
  };
  (void)look(16, 65);
  plan();
  const auto kept = look(16, 65).script;
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(repertoire.turnover(), 0);

  for (int rows = 2; rows <= 15; ++rows) {
    for (int length = 60; length <= 130; length += 10) {
      (void)look(rows, length);
      if (repertoire.is_asked()) plan();
      ASSERT_EQ(look(16, 65).script, kept) << rows << " x " << length;
    }
  }

  EXPECT_GE(repertoire.turnover(), 1);
  EXPECT_LE(repertoire.script_count(), 64u);
  repertoire.forget_scripts();
  EXPECT_EQ(repertoire.turnover(), 0);
}

TEST(Repertoire, WhatFittedIsPlannedForWhereThereIsLessRoom) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  EXPECT_FALSE(next_wanted(repertoire, 1_GiB));  // every size in the range was looked at, and has room

  EXPECT_EQ(find(repertoire, 170), nullptr);
  const auto wanted = next_wanted(repertoire, kNoRoom);

  ASSERT_TRUE(wanted);
  repertoire.keep(script_for(*wanted));
  EXPECT_NE(find(repertoire, 170), nullptr);
}

// It is for up to a tenth more, and would move or drop what has room.
TEST(Repertoire, AScriptForALittleMoreIsNotTakenWhereTheStepFits) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  const Bytes room = peak_of(*recorded(165));
  EXPECT_EQ(find(repertoire, 170, room), nullptr);
  const auto wanted = next_wanted(repertoire, room);
  ASSERT_TRUE(wanted);
  repertoire.keep(script_for(*wanted));

  EXPECT_NE(find(repertoire, 170, room), nullptr);
  EXPECT_NE(find(repertoire, 166, room), nullptr);
  EXPECT_EQ(find(repertoire, 164, room), nullptr);
}

// With few samples much must be left for what is not known, and plans are tighter for it.
TEST(Repertoire, WhatWasPlannedWhenLessWasKnownIsPlannedAgain) {
  Repertoire repertoire;
  for (const int length : {100, 200}) repertoire.observe(recorded(length));
  EXPECT_EQ(find(repertoire, 170), nullptr);
  const auto early = next_wanted(repertoire, kNoRoom);
  ASSERT_TRUE(early);
  repertoire.keep(script_for(*early));
  for (const int length : {150, 180, 120}) repertoire.observe(recorded(length));

  const auto again = next_wanted(repertoire, kNoRoom);

  ASSERT_TRUE(again);
  EXPECT_EQ(again->order.at, early->order.at);
  EXPECT_TRUE(again->order.quick);
  EXPECT_GT(again->order.kind->observed(), early->order.kind->observed());
  EXPECT_NE(find(repertoire, 170), nullptr);  // until the better one is there
}

TEST(Repertoire, PlansAreMadeBetterWhenAllAreThere) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));

  int quick = 0, better = 0;
  while (const auto wanted = next_wanted(repertoire, kNoRoom)) {
    ++(wanted->order.quick ? quick : better);
    repertoire.keep(script_for(*wanted));
    ASSERT_LT(quick + better, 80);
  }

  EXPECT_EQ(quick, better);
}

// op       0     1     2     3
// hidden   made  .     .     read
// scores         made  read
std::shared_ptr<const RecordedSteps> with_a_gap(std::int64_t length) {
  StepMaker maker;
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("ids", Bytes{8 * length}, StorageKind::input);
    maker.make("hidden", Bytes{4096 * length}, {"ids"});
    maker.make("scores", Bytes{4096 * length}, {"ids"});
    for (const char* name : {"scores", "hidden"}) {
      maker.op("back", {.in = {name}});
      maker.death(name);
    }
    maker.death("ids");
    maker.end();
  }
  RecordedSteps steps{.trace = maker.trace(), .keys = {1, 2, 3, 4}, .shapes = {11, 12, 13, 14}, .lean = {}};
  return std::make_shared<const RecordedSteps>(std::move(steps));
}

TEST(Repertoire, APlanForALargerSizeIsTakenWhereThereIsNoOther) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(with_a_gap(length));
  const auto wanted = next_wanted(repertoire, kNoRoom);  // the largest
  ASSERT_TRUE(wanted);
  Plan plan;
  for (const Gap& gap : find_gaps(*wanted->step)) {
    if (gap.ends == GapEnd::access && wanted->step->storages()[gap.storage].size > 100_KiB) plan.gaps.push_back({.gap = gap, .remedy = Remedy::drop});
  }
  ASSERT_EQ(plan.gaps.size(), 1u);
  repertoire.keep(std::make_shared<const Script>(*wanted->order.steps, *wanted->step, plan, 1_GiB, nullptr, std::vector<OpPlace>{}, /*any_size=*/true));

  const auto found_for = [&](std::int64_t length, Bytes room) {
    repertoire.begin_step();
    repertoire.op(11, {{{Bytes{8 * length}}, {}, {Bytes{4096 * length}}}});
    return repertoire.find_script(room);
  };

  EXPECT_TRUE(found_for(120, 1_MiB).fits);
  const auto needed = found_for(120, 900_KiB), larger = found_for(220, 1_MiB), not_enough = found_for(120, 400_KiB);
  EXPECT_TRUE(needed.reused);
  EXPECT_TRUE(larger.reused);  // than any seen
  EXPECT_EQ(needed.spared, std::vector<bool>{false});
  EXPECT_EQ(not_enough.script, nullptr);
  EXPECT_TRUE(repertoire.is_asked());
}

TEST(Repertoire, OneScriptStandsByWhereAllThatIsKnownHasRoom) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(with_a_gap(length));
  const Bytes room = peak_of(*with_a_gap(240));
  const auto wanted = next_wanted(repertoire, room);  // the largest
  ASSERT_TRUE(wanted);
  EXPECT_LE(wanted->peak, room);
  std::vector<PlannedGap> reserve;
  for (const Gap& gap : find_gaps(*wanted->step)) {
    if (gap.ends == GapEnd::access && wanted->step->storages()[gap.storage].size > 100_KiB) reserve.push_back({.gap = gap, .remedy = Remedy::drop});
  }
  ASSERT_EQ(reserve.size(), 1u);
  repertoire.keep(std::make_shared<const Script>(*wanted->order.steps, *wanted->step, Plan{}, room, nullptr, std::vector<OpPlace>{}, /*any_size=*/true, reserve));
  EXPECT_FALSE(next_wanted(repertoire, room));

  const auto found_for = [&](std::int64_t length) {
    repertoire.begin_step();
    repertoire.op(11, {{{Bytes{8 * length}}, {}, {Bytes{4096 * length}}}});
    return repertoire.find_script(room);
  };

  EXPECT_TRUE(found_for(190).fits);
  const auto larger = found_for(300);
  EXPECT_TRUE(larger.extended);
  EXPECT_EQ(larger.spared, std::vector<bool>{false});
  repertoire.change_room();
  EXPECT_EQ(found_for(300).script, nullptr);
}

TEST(Repertoire, AStepThatWentAnotherWayOnceDoesNotStandBeforeTheOthers) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  repertoire.observe(odd_one(170));

  EXPECT_EQ(find(repertoire, 170), nullptr);
  const auto wanted = next_wanted(repertoire, kNoRoom);
  ASSERT_TRUE(wanted);
  repertoire.keep(script_for(*wanted));

  EXPECT_NE(find(repertoire, 170), nullptr);
  EXPECT_EQ(wanted->order.steps->shapes.back(), 13u);
}

TEST(Repertoire, WhoseSizesWereNearerIsChosenOfTwoKindsThatBeginAlike) {
  Repertoire repertoire;
  for (const int length : {100, 120}) repertoire.observe(recorded(length));
  for (const int length : {200, 240}) repertoire.observe(odd_one(length));

  (void)find(repertoire, 210);
  EXPECT_EQ(next_wanted(repertoire, kNoRoom)->order.steps->shapes.back(), 99u);
}

TEST(Repertoire, AKindHardlyKnownIsLookedForSeldomAndNotForEver) {
  Repertoire repertoire;
  for (int length = 100; length < 118; ++length) repertoire.observe(recorded(length));
  repertoire.observe(odd_one(170));

  int sampled = 0;
  for (int step = 0; step < 400; ++step) {
    (void)find(repertoire, 110);
    sampled += repertoire.wants_samples() ? 1 : 0;
  }

  EXPECT_EQ(sampled, 16);
}

TEST(Repertoire, AnUnknownBeginningHasNoScript) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));

  repertoire.begin_step();
  repertoire.op(99, {});

  EXPECT_FALSE(repertoire.watches());
  EXPECT_EQ(repertoire.find_script(kNoRoom).script, nullptr);
  EXPECT_TRUE(repertoire.wants_samples());
}

TEST(Repertoire, KeepsWhatItLearntWhenPlansAreForgotten) {
  Repertoire repertoire;
  for (const int length : {100, 200, 150}) repertoire.observe(recorded(length));
  repertoire.keep(script_for(*next_wanted(repertoire, kNoRoom)));

  repertoire.forget_scripts();

  EXPECT_EQ(repertoire.script_count(), 0u);
  EXPECT_TRUE(repertoire.varies());
  EXPECT_TRUE(next_wanted(repertoire, kNoRoom));
}

}  // namespace
}  // namespace spillway
