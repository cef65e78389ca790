// The tape over a simulated card, where every copy takes a known time and nothing is done before somebody waits.
#include "engine/tape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "device/fake/card.h"
#include "device/fake/fake_device.h"
#include "trace/check.h"
#include "trace/reader.h"

namespace spillway {
namespace {

class TapeTest : public testing::Test {
 protected:
  TapeTest() {
    for (const Tier tier : {Tier::device, Tier::host}) {
      card.reserve(tier, 64_MiB);
      EXPECT_TRUE(card.try_commit(tier, {0_B, 64_MiB}));
    }
    tape.open(path, card, std::array{out});
    opened = card.now();
    record.id = StorageId{0};
    record.size = 16_MiB;
    tape.birth(record);
  }
  ~TapeTest() override { std::filesystem::remove(path); }

  CopySpan copy_out() {
    const Tick began = card.record(out);
    card.copy(out, {Tier::host, 0_B}, {Tier::device, 0_B}, record.size);
    return {began, card.record(out)};
  }

  template <class E>
  std::vector<E> events() {
    tape.close();
    const Trace trace = read_trace(path);
    EXPECT_TRUE(check_trace(trace, 1).empty());
    std::vector<E> found;
    for (const Event& event : trace.events) {
      if (const auto* one = std::get_if<E>(&event)) found.push_back(*one);
    }
    return found;
  }

  FakeDevice card{find_card("h200")};
  StreamId out = card.open_stream();
  std::string path = testing::TempDir() + "tape_test_" + std::to_string(::getpid()) + ".spt";
  Tape tape;
  Nanos opened;
  Record record;
};

// host   enqueue copy, tell the move, the storage dies, an op . . . . . . . the end
// out                <------------ copy ------------>
TEST_F(TapeTest, TellsHowLongACopyTookAndKeepsTheOrderOfTheHost) {
  const CopySpan copy = copy_out();
  const Nanos told_at = card.now();
  tape.move(record, TraceTier::device, TraceTier::host, false, copy);
  tape.death(record);
  tape.op({.name = "aten::relu", .inputs = {}, .outputs = {}, .mutated = {}, .aliased = {}});
  EXPECT_LT(card.now() - told_at, 50_us);  // nobody waited for 16 MiB

  const auto moves = events<Move>();

  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].duration, card.elapsed(copy.began, copy.done));
  EXPECT_GT(moves[0].duration, 200_us);
  EXPECT_LT(moves[0].start, told_at);
}

// compute   [100 us]before..............[goes on        out has ended another copy before the stall is looked at
// out       <---------- copy ---------->awaited<- copy ->
TEST_F(TapeTest, TellsHowLongAStreamStoodStillAndWhenInTheOrderOfTheHost) {
  const StreamId compute = card.open_stream();
  const auto op = [&] { tape.op({.name = "aten::relu", .inputs = {}, .outputs = {}, .mutated = {}, .aliased = {}}); };
  card.compute(compute, 100_us);
  const CopySpan copy = copy_out();
  const Tick before = card.record_timed(compute);
  op();
  card.wait(compute, copy.done);
  tape.stall(StallCause::room, {before, copy.done});
  op();
  const CopySpan next = copy_out();
  card.synchronize(next.done);
  const Nanos end = card.now();
  tape.move(record, TraceTier::device, TraceTier::host, false, next);  // its tick is known before the older one's

  const auto stalls = events<Stall>();

  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(stalls[0].cause, StallCause::room);
  EXPECT_EQ(stalls[0].op, OpIndex{1});
  EXPECT_EQ(stalls[0].duration, card.elapsed(before, copy.done));
  EXPECT_GT(stalls[0].duration, 100_us);
  const Nanos after = end - opened - (stalls[0].start + stalls[0].duration);  // from the stall's end to that of the next copy
  EXPECT_NEAR(static_cast<double>(after.count), static_cast<double>(card.elapsed(copy.done, next.done).count), 1000);
}

TEST_F(TapeTest, AWaitThatTookNoTimeIsNoStall) {
  const StreamId compute = card.open_stream();
  const CopySpan copy = copy_out();
  card.compute(compute, 1_s);
  const Tick before = card.record_timed(compute);
  card.wait(compute, copy.done);
  tape.stall(StallCause::fetch, {before, copy.done});
  card.synchronize(card.record(compute));
  EXPECT_TRUE(events<Stall>().empty());
}

TEST_F(TapeTest, ASecondOneBeginsAnew) {
  const auto run = [&] { tape.op({.name = "aten::relu", .start = card.now(), .inputs = {}, .outputs = {}, .mutated = {}, .aliased = {}}); };
  run();
  tape.end_step({});
  EXPECT_EQ(events<Op>().size(), 1u);

  tape.open(path, card, std::array{out});
  run();

  const auto ops = events<Op>();
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].step, StepIndex{0});
}

TEST_F(TapeTest, AnOpNamesNobodyWhoDiedInIt) {
  Record made;
  made.id = StorageId{1};
  tape.birth(made);
  tape.death(record);
  const std::array names{record.id, made.id};
  tape.op({.name = "aten::resize_", .inputs = {}, .outputs = names, .mutated = names, .aliased = {}});

  const auto ops = events<Op>();

  ASSERT_EQ(ops.size(), 1u);
  EXPECT_THAT(ops[0].mutated, testing::ElementsAre(StorageId{1}));
}

TEST_F(TapeTest, ABirthIsToldOnce) {
  tape.birth(record);
  EXPECT_EQ(events<StorageBirth>().size(), 1u);
}

TEST_F(TapeTest, AnOpSaysWhyItMayNotBeReplayed) {
  tape.op({.name = "aten::empty", .why_not = "it leaves memory as it is", .inputs = {}, .outputs = {}, .mutated = {}, .aliased = {}});
  tape.op({.name = "aten::relu", .inputs = {}, .outputs = {}, .mutated = {}, .aliased = {}});

  const auto ops = events<Op>();

  ASSERT_EQ(ops.size(), 2u);
  EXPECT_FALSE(ops[0].replayable);
  EXPECT_TRUE(ops[0].why_not.valid());
  EXPECT_TRUE(ops[1].replayable);
  EXPECT_FALSE(ops[1].why_not.valid());
}

TEST_F(TapeTest, AnOpSaysHowSoonItsResultIsMadeAgain) {
  tape.op({.name = "aten::native_dropout", .timed = true, .lean = 3_us, .again = 5_us, .inputs = {}, .outputs = {}, .mutated = {}, .aliased = {}});
  tape.op({.name = "aten::native_dropout", .lean = 4_us, .inputs = {}, .outputs = {}, .mutated = {}, .aliased = {}});
  tape.end_step(std::array{9_us});

  const auto ops = events<Op>();

  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].lean, 3_us);
  EXPECT_EQ(ops[0].again, 5_us);
  EXPECT_EQ(ops[1].lean, 4_us);
}

TEST_F(TapeTest, APlanSaysWhatItPromisesAndHowLongItTookToMake) {
  tape.plan("hybrid", 64_MiB, {.peak = 60_MiB, .over = 1_MiB, .peak_home = {}, .time = 5_ms, .plain_time = {}, .stall = {}, .rebuild = {}, .effort = {}, .moved = {}, .rebuilt = {}}, 40_ms);

  const auto plans = events<PlanMade>();

  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].predicted_peak, 60_MiB);
  EXPECT_EQ(plans[0].shortfall, 1_MiB);
  EXPECT_EQ(plans[0].predicted_time, 5_ms);
  EXPECT_EQ(plans[0].took, 40_ms);
}

TEST_F(TapeTest, OpsThatTheDeviceMeasuresHaveItsTimesOneAfterTheOther) {
  const OpNote timed{.name = "aten::relu", .start = card.now() + 1_ms, .duration = 5_us, .timed = true, .inputs = {}, .outputs = {}, .mutated = {}, .aliased = {}};
  const OpNote host{.name = "aten::view", .start = card.now() + 1_ms, .duration = 7_us, .inputs = {}, .outputs = {}, .mutated = {}, .aliased = {}};
  const CopySpan copy = copy_out();
  tape.op(timed);
  tape.move(record, TraceTier::device, TraceTier::host, false, copy);
  tape.op(host);
  tape.op(timed);
  const std::array<Nanos, 2> times{300_us, 40_us};
  tape.end_step(times);
  tape.op(timed);  // of a step that does not end

  const auto ops = events<Op>();

  ASSERT_EQ(ops.size(), 4u);
  EXPECT_EQ(ops[0].duration, 300_us);
  EXPECT_EQ(ops[1].duration, 7_us);
  EXPECT_EQ(ops[2].duration, 40_us);
  EXPECT_EQ(ops[2].start, ops[0].start + 300_us);
  EXPECT_EQ(ops[3].duration, 5_us);
  EXPECT_EQ(events<Move>().size(), 1u);
}

TEST_F(TapeTest, RolesAreGuessedOnceAndToldByThoseWhoKnow) {
  Record made, inside;
  made.id = StorageId{1};
  inside.id = StorageId{2};
  made.maker = inside.maker = "aten::linear";
  tape.birth(made);
  tape.birth(inside);
  const std::array read{record.id}, written{made.id};
  const OpNote linear{.name = "aten::linear", .phase = Phase::forward, .inputs = read, .outputs = written, .mutated = {}, .aliased = {}};
  tape.op(linear);
  tape.op(linear);
  tape.role(record, StorageKind::parameter);
  tape.role(record, StorageKind::parameter);

  const auto roles = events<StorageRole>();

  EXPECT_THAT(roles, testing::ElementsAre(StorageRole{record.id, StorageKind::input}, StorageRole{made.id, StorageKind::activation},
                                          StorageRole{inside.id, StorageKind::workspace},
                                          StorageRole{record.id, StorageKind::parameter}));
}

}  // namespace
}  // namespace spillway
