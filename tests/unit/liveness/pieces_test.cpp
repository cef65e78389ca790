#include "liveness/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

std::vector<Op> ops_of(const Trace& trace) {
  std::vector<Op> ops;
  for (const Event& event : trace.events) {
    if (const Op* op = std::get_if<Op>(&event)) ops.push_back(*op);
  }
  return ops;
}

// Two lists of three: 4, 1 and 3 MiB each.
StepMaker add_lists() {
  StepMaker maker;
  const Bytes sizes[] = {4_MiB, 1_MiB, 3_MiB};
  for (const char* list : {"p", "g"}) {
    for (int i = 0; i < 3; ++i) maker.birth(list + std::to_string(i), sizes[i], StorageKind::parameter);
  }
  maker.begin();
  maker.op("aten::_foreach_add_", {.in = {"p0", "p1", "p2", "g0", "g1", "g2"}, .write = {"p0", "p1", "p2"}, .takes = 16_us});
  maker.op("aten::mm", {.in = {"p0", "g0"}});
  maker.end();
  return maker;
}

TEST(CutLists, PutsElementsTogetherWhileTheyFit) {
  const StepMaker maker = add_lists();
  const std::vector<Op> ops = ops_of(cut_lists(maker.trace(), 10_MiB));
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops[0].inputs, (std::vector{maker.id("p0"), maker.id("p1"), maker.id("g0"), maker.id("g1")}));
  EXPECT_EQ(ops[0].mutated, (std::vector{maker.id("p0"), maker.id("p1")}));
  EXPECT_EQ(ops[1].inputs, (std::vector{maker.id("p2"), maker.id("g2")}));
  EXPECT_EQ(ops[0].duration, 10_us);
  EXPECT_EQ(ops[1].duration, 6_us);
  EXPECT_EQ(ops[2].index, OpIndex{2});
}

// A fused optimizer reads its step counts and writes everything else: they come first in the trace of a run.
TEST(CutLists, StepCountsMayComeFirst) {
  StepMaker maker;
  const Bytes sizes[] = {4_MiB, 1_MiB, 3_MiB};
  for (int i = 0; i < 3; ++i) maker.birth("n" + std::to_string(i), 4_B, StorageKind::optimizer_state);
  for (const char* list : {"p", "g", "m", "v"}) {
    for (int i = 0; i < 3; ++i) maker.birth(list + std::to_string(i), sizes[i], StorageKind::parameter);
  }
  maker.begin();
  maker.op("aten::_fused_adamw_", {.in = {"n0", "n1", "n2"}, .write = {"p0", "p1", "p2", "g0", "g1", "g2", "m0", "m1", "m2", "v0", "v1", "v2"}});
  maker.end();

  const std::vector<Op> ops = ops_of(cut_lists(maker.trace(), 21_MiB));

  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].inputs, (std::vector{maker.id("n0"), maker.id("n1")}));
  EXPECT_EQ(ops[1].inputs, std::vector{maker.id("n2")});
  EXPECT_EQ(ops[1].mutated, (std::vector{maker.id("p2"), maker.id("g2"), maker.id("m2"), maker.id("v2")}));
}

TEST(CutLists, LeavesWholeWhatFits) { EXPECT_EQ(cut_lists(add_lists().trace(), 16_MiB).events, add_lists().trace().events); }

// Between births and their op stand the calls of a run that can be played again; in pieces it would make others.
TEST(CutLists, CallsOfTheWholeRunAreLeftOut) {
  Trace told = add_lists().trace();
  std::vector<Event> events;
  for (const Event& event : std::exchange(told.events, {})) {
    events.emplace_back(Call{.kind = CallKind::answer, .words = {1}});
    events.push_back(event);
  }
  told.events = std::move(events);
  EXPECT_EQ(cut_lists(told, 10_MiB).events, cut_lists(add_lists().trace(), 10_MiB).events);
}

TEST(CutLists, ResultsAreBornWithTheirPiece) {
  StepMaker maker;
  for (const char* name : {"a0", "a1", "b0", "b1"}) maker.birth(name, 2_MiB);
  maker.begin();
  for (const char* name : {"c0", "c1"}) maker.birth(name, 2_MiB);
  maker.op("aten::_foreach_mul", {.in = {"a0", "a1", "b0", "b1"}, .out = {"c0", "c1"}});
  maker.end();
  const Trace cut = cut_lists(maker.trace(), 4_MiB);
  const std::vector<Op> ops = ops_of(cut);
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].outputs, std::vector{maker.id("c0")});
  EXPECT_EQ(ops[0].transient, 2_MiB);
  const auto last_birth = std::ranges::find_if(cut.events, [&](const Event& event) {
    const auto* birth = std::get_if<StorageBirth>(&event);
    return birth != nullptr && birth->storage == maker.id("c1");
  });
  EXPECT_TRUE(std::holds_alternative<Op>(*(last_birth - 1)));
}

}  // namespace
}  // namespace spillway
