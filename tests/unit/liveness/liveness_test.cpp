#include "liveness/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "liveness/curve.h"
#include "liveness/floor.h"
#include "liveness/gaps.h"
#include "liveness/in_out.h"
#include "support/step_maker.h"
#include "trace/check.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::StepMaker;

Liveness last_step(const StepMaker& maker) {
  EXPECT_THAT(check_trace(maker.trace()), IsEmpty());
  return Liveness(maker.trace(), *find_steady_step(maker.trace()));
}

std::vector<Gap> gaps_of(const Liveness& liveness, StorageId id) {
  std::vector<Gap> found;
  for (const Gap& gap : find_gaps(liveness))
    if (liveness.storages()[gap.storage].id == id) found.push_back(gap);
  return found;
}

// op         0     1     2     3
//            make  make  make  sgd
// weight 4   r     .     .     rw      lives on
// a      2   w     r     r             dies before 3
// b      1         w     r             dies before 3
// grad   4               w     r       lives on
StepMaker little_step() {
  StepMaker maker;
  maker.birth("weight", 4_MiB, StorageKind::parameter);
  maker.begin();
  maker.make("a", 2_MiB, {"weight"});
  maker.make("b", 1_MiB, {"a"});
  maker.make("grad", 4_MiB, {"a", "b"});
  maker.death("a");
  maker.death("b");
  maker.role("grad", StorageKind::gradient);
  maker.op("sgd", {.in = {"grad"}, .write = {"weight"}, .takes = 3_us, .phase = Phase::optimizer});
  maker.end();
  return maker;
}

TEST(Liveness, StoragesLiveFromTheOpThatMakesThemToTheOpBeforeWhichTheyDie) {
  const Liveness liveness = last_step(little_step());

  ASSERT_EQ(liveness.op_count(), 4u);
  ASSERT_EQ(liveness.storage_count(), 4u);
  const auto all = liveness.storages();
  EXPECT_EQ(std::pair(all[0].birth, all[0].death), std::pair(0u, 4u));
  EXPECT_TRUE(all[0].wraps());
  EXPECT_EQ(std::pair(all[1].birth, all[1].death), std::pair(0u, 3u));
  EXPECT_EQ(std::pair(all[2].birth, all[2].death), std::pair(1u, 3u));
  EXPECT_EQ(std::pair(all[3].birth, all[3].death), std::pair(2u, 4u));
  EXPECT_TRUE(all[3].after && !all[3].before);
  EXPECT_EQ(all[3].kind, StorageKind::gradient);
}

TEST(Liveness, AccessesAreTheSameByOpAndByStorage) {
  const Liveness liveness = last_step(little_step());

  EXPECT_THAT(liveness.accesses_of(0),
              ElementsAre(Access{0, 0, 0, true, false, false}, Access{3, 0, 0, true, true, false}));
  EXPECT_THAT(liveness.accesses_of(1),
              ElementsAre(Access{0, 1, 0, false, true, true}, Access{1, 1, 1, true, false, false},
                          Access{2, 1, 1, true, false, false}));
  EXPECT_THAT(liveness.accesses_at(2),
              ElementsAre(Access{2, 1, 1, true, false, false}, Access{2, 2, 1, true, false, false},
                          Access{2, 3, 0, false, true, true}));
  EXPECT_THAT(liveness.writers_of(0), ElementsAre(3u));
  EXPECT_THAT(liveness.writers_of(1), ElementsAre(0u));
}

TEST(Liveness, AnOpThatNamesAStorageTwiceTouchesItOnce) {
  StepMaker maker;
  maker.birth("x", 1_MiB);
  maker.begin();
  maker.op("mul_", {.in = {"x", "x"}, .write = {"x"}});
  maker.end();
  const Liveness liveness = last_step(maker);

  EXPECT_THAT(liveness.accesses_at(0), ElementsAre(Access{0, 0, 0, true, true, false}));
}

TEST(Liveness, VersionsCountTheWritesBefore) {
  StepMaker maker;
  maker.begin();
  maker.birth("x", 1_MiB);
  maker.op("make", {.out = {"x"}});
  maker.op("relu_", {.write = {"x"}});
  maker.op("sum", {.in = {"x"}});
  maker.end();
  const Liveness liveness = last_step(maker);

  const auto accesses = liveness.accesses_of(0);
  ASSERT_EQ(accesses.size(), 3u);
  EXPECT_EQ(accesses[0].version, 0u);
  EXPECT_EQ(accesses[1].version, 1u);
  EXPECT_EQ(accesses[2].version, 2u);
  EXPECT_THAT(liveness.writers_of(0), ElementsAre(0u, 1u));
}

TEST(Liveness, AViewTouchesNothing) {
  StepMaker maker;
  maker.birth("x", 1_MiB);
  maker.begin();
  maker.op("detach", {.in = {"x"}, .view = {"x"}});
  maker.op("sum", {.in = {"x"}});
  maker.op("relu_", {.write = {"x"}, .view = {"x"}});  // returns what it wrote: no view op
  maker.end();
  const Liveness liveness = last_step(maker);

  EXPECT_TRUE(liveness.ops()[0].view);
  EXPECT_FALSE(liveness.ops()[1].view);
  EXPECT_FALSE(liveness.ops()[2].view);
  EXPECT_THAT(liveness.accesses_at(0), IsEmpty());
  EXPECT_EQ(liveness.accesses_of(0).size(), 2u);
}

// An op that returns a view of one input and reads another is not only a view: the other one is read.
TEST(Liveness, AnOpThatReadsBesideItsViewReads) {
  StepMaker maker;
  maker.birth("x", 1_MiB);
  maker.birth("index", 1_MiB);
  maker.begin();
  maker.op("narrow", {.in = {"x", "index"}, .view = {"x"}});
  maker.end();

  EXPECT_EQ(last_step(maker).accesses_at(0).size(), 2u);
}

TEST(Liveness, AStorageThatDiesWhileAnOpUsesItIsThereForTheOp) {
  StepMaker maker;
  maker.birth("x", 1_MiB);
  maker.begin();
  maker.op("first", {});
  const StorageId x = maker.id("x");
  maker.death("x");
  Op op{.index = OpIndex{1}, .name = NameId{0}, .phase = Phase::forward, .job = JobId{0}, .step = StepIndex{0}};
  op.inputs = {x};
  maker.add(op);
  maker.end();
  const Liveness liveness(maker.trace(), *find_steady_step(maker.trace()));

  EXPECT_EQ(liveness.storages()[0].death, 2u);
  EXPECT_FALSE(liveness.storages()[0].after);
}

TEST(Liveness, ARoleThatIsKnownOnlyAfterTheStepCounts) {
  StepMaker maker;
  maker.birth("moment", 1_MiB, StorageKind::unknown);
  maker.begin();
  maker.op("adam", {.write = {"moment"}});
  maker.end();
  maker.role("moment", StorageKind::optimizer_state);

  EXPECT_EQ(last_step(maker).storages()[0].kind, StorageKind::optimizer_state);
}

TEST(Liveness, TimesAddUpAndGoAroundTheEnd) {
  const Liveness liveness = last_step(little_step());  // 1, 1, 1, 3 us

  EXPECT_THAT(liveness.starts(), ElementsAre(0_us, 1_us, 2_us, 3_us, 6_us));
  EXPECT_EQ(liveness.time_over(1, 3), 2_us);
  EXPECT_EQ(liveness.time_over(3, 6), 5_us);
}

TEST(LiveCurve, CountsTransientsFromBeforeTheOp) {
  StepMaker maker;
  maker.birth("weight", 4_MiB, StorageKind::parameter);
  maker.begin();
  maker.birth("a", 2_MiB);
  maker.op("conv", {.in = {"weight"}, .out = {"a"}, .workspace = 3_MiB});
  maker.death("a");
  maker.op("rest", {.in = {"weight"}});
  maker.end();
  const LiveCurve curve = live_curve(last_step(maker));

  EXPECT_THAT(curve.live, ElementsAre(6_MiB, 4_MiB));
  EXPECT_THAT(curve.during, ElementsAre(9_MiB, 4_MiB));
  EXPECT_EQ(curve.peak_live, 6_MiB);
  EXPECT_EQ(curve.peak, 9_MiB);
  EXPECT_EQ(curve.peak_op, 0u);
}

TEST(LiveCurve, ThePeakIsHeldByThoseWhoAreThere) {
  const Liveness liveness = last_step(little_step());
  const LiveCurve curve = live_curve(liveness);

  EXPECT_THAT(curve.live, ElementsAre(6_MiB, 7_MiB, 11_MiB, 8_MiB));
  EXPECT_EQ(curve.peak_live_op, 2u);
  EXPECT_THAT(resident_at(liveness, curve.peak_live_op), ElementsAre(0u, 3u, 1u, 2u));
}

TEST(Gaps, AParameterIsIdleBetweenItsUsesAndAroundTheEnd) {
  const StepMaker maker = little_step();
  const Liveness liveness = last_step(maker);

  // weight: read by 0, written by 3, read by 0 of the next step at once
  EXPECT_THAT(gaps_of(liveness, maker.id("weight")), ElementsAre(Gap{0, 1, 3, 0, GapEnd::access}));
  // the gradient is read by the last op; nothing says what becomes of it
  EXPECT_THAT(gaps_of(liveness, maker.id("grad")), IsEmpty());
}

TEST(Gaps, OptimizerStateIsIdleAroundTheEnd) {
  StepMaker maker;
  maker.birth("moment", 1_MiB, StorageKind::optimizer_state);
  maker.begin();
  for (int i = 0; i < 3; ++i) maker.op("forward", {});
  maker.op("adam", {.write = {"moment"}});
  maker.op("after", {});
  maker.end();

  EXPECT_THAT(find_gaps(last_step(maker)), ElementsAre(Gap{0, 4, 5 + 3, 1, GapEnd::access}));
}

// op          0     1     2        0     1     2
// grad s-1    .     r? no: zero_grad frees it before op 1
// grad s                  w   |    .   dies before 1
TEST(Gaps, WhatIsBornInOneStepAndDiesInTheNextIsFollowedThere) {
  StepMaker maker;
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.op("zero", {});
    if (step > 0) maker.death("grad" + std::to_string(step - 1));
    maker.op("forward", {});
    maker.make("grad" + std::to_string(step), 1_MiB, {});
    maker.op("log", {});
    maker.end();
  }
  const Liveness liveness = last_step(maker);

  ASSERT_EQ(liveness.storage_count(), 2u);
  EXPECT_EQ(liveness.storages()[1].next, 0u);  // grad1 will go on as grad0 does now
  EXPECT_TRUE(liveness.storages()[0].continues);
  EXPECT_THAT(find_gaps(liveness), ElementsAre(Gap{1, 3, 4 + 1, 1, GapEnd::death}));
}

// A run under a budget rebuilds something between two ops, in this step and not in the one before.
TEST(Gaps, ATemporaryBetweenTwoOpsChangesNobodysPart) {
  StepMaker maker;
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    if (step > 0) maker.death("grad0");
    maker.op("forward", {});
    if (step > 0) maker.birth("temporary", 1_MiB);
    maker.birth("grad" + std::to_string(step), 1_MiB);
    if (step > 0) maker.death("temporary");
    maker.op("make", {.out = {"grad" + std::to_string(step)}});
    maker.end();
  }
  const Liveness liveness = last_step(maker);

  ASSERT_EQ(liveness.storage_count(), 3u);
  EXPECT_EQ(liveness.storages()[2].next, 0u);
}

TEST(Gaps, WithoutAStepBeforeTheEndOfALifeIsUnseen) {
  StepMaker maker;
  maker.begin();
  maker.make("grad", 1_MiB, {});
  maker.op("log", {});
  maker.end();

  EXPECT_THAT(find_gaps(last_step(maker)), ElementsAre(Gap{0, 1, 2, 1, GapEnd::unseen}));
}

TEST(Gaps, ABatchThatTheScriptBroughtIsIdleUntilItIsReadAndUntilItDies) {
  StepMaker maker;
  maker.birth("batch", 1_MiB, StorageKind::input);
  maker.begin();
  maker.op("zero", {});
  maker.op("forward", {.in = {"batch"}});
  maker.op("backward", {});
  maker.death("batch");
  maker.op("adam", {});
  maker.end();

  EXPECT_THAT(find_gaps(last_step(maker)),
              ElementsAre(Gap{0, 0, 1, 0, GapEnd::access}, Gap{0, 2, 3, 0, GapEnd::death}));
}

TEST(Floor, IsTheLargestWorkingSetWithWhatCannotLeave) {
  StepMaker maker;
  maker.birth("weight", 4_MiB, StorageKind::parameter);
  maker.birth("cublas", 8_MiB, StorageKind::workspace);
  maker.begin();
  maker.birth("a", 2_MiB);
  maker.op("conv", {.in = {"weight"}, .out = {"a"}, .workspace = 3_MiB});
  maker.op("detach", {.in = {"weight"}, .view = {"weight"}});
  maker.op("sum", {.in = {"weight", "a"}});
  maker.end();
  const Floor floor = find_floor(last_step(maker));

  EXPECT_EQ(floor.bytes, 17_MiB);
  EXPECT_EQ(floor.op, 0u);
  EXPECT_EQ(floor.working_set, 9_MiB);
  EXPECT_EQ(floor.stuck, 8_MiB);
}

TEST(Floor, SmallStoragesThatStayAreCountedOnce) {
  StepMaker maker;
  maker.birth("small", 1_KiB);
  maker.birth("large", 1_MiB);
  maker.birth("idle", 1_KiB);
  maker.begin();
  maker.birth("out", 1_KiB);
  maker.op("add", {.in = {"small", "large"}, .out = {"out"}});
  maker.end();

  EXPECT_EQ(find_floor(last_step(maker), {.smallest = 2_KiB}).bytes, 1_MiB + 3_KiB);
  EXPECT_EQ(find_floor(last_step(maker)).bytes, 1_MiB + 2_KiB);
}

TEST(Floor, AnOptimizerThatRunsInPiecesCountsWithItsLargest) {
  StepMaker maker;
  for (const char* name : {"p0", "g0", "m0", "v0"}) maker.birth(name, 4_MiB);
  for (const char* name : {"p1", "g1", "m1", "v1"}) maker.birth(name, 2_MiB);
  maker.begin();
  maker.op("aten::_fused_adamw_", {.in = {"g0", "g1"}, .write = {"p0", "p1", "m0", "m1", "v0", "v1"}});
  maker.end();

  EXPECT_EQ(find_floor(last_step(maker)).bytes, 16_MiB);
}

TEST(InOutSets, HoldWhatIsStillNeeded) {
  const StepMaker maker = little_step();
  const Liveness liveness = last_step(maker);
  const InOutSets sets(liveness);

  EXPECT_THAT(sets.in(0), ElementsAre(0u));
  EXPECT_THAT(sets.out(0), ElementsAre(0u, 1u));
  EXPECT_THAT(sets.in(2), ElementsAre(0u, 1u, 2u));
  EXPECT_THAT(sets.out(2), ElementsAre(0u, 3u));
  EXPECT_THAT(sets.freed_after(2), ElementsAre(1u, 2u));
  EXPECT_THAT(sets.out(3), ElementsAre(0u, 3u));
  EXPECT_THAT(sets.freed_after(3), IsEmpty());
}

TEST(WholeSteps, AreThoseWithNothingLost) {
  StepMaker maker;
  maker.begin();
  maker.op("a", {});
  maker.end();
  maker.begin();  // still open when events are lost
  maker.add(Restart{10_us});
  maker.add(StepBegin{StepIndex{5}, JobId{0}, 8_us, {}});  // announced again, in its middle
  maker.add(StepEnd{StepIndex{5}, JobId{0}, 12_us});
  maker.add(StepBegin{StepIndex{6}, JobId{0}, 12_us, {}});
  maker.add(StepEnd{StepIndex{6}, JobId{0}, 13_us});

  const auto steps = find_whole_steps(maker.trace());
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].step, StepIndex{0});
  EXPECT_EQ(steps[1].step, StepIndex{6});
  EXPECT_EQ(find_steady_step(maker.trace())->step, StepIndex{0});  // step 6 runs no op
  EXPECT_FALSE(find_step(maker.trace(), StepIndex{5}));
}

}  // namespace
}  // namespace spillway
