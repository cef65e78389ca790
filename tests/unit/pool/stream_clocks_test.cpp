#include "pool/stream_clocks.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace spillway {
namespace {

using testing::ElementsAre;

constexpr StreamId A{0}, B{1}, C{2}, D{3};

class StreamClocksTest : public testing::Test {
 protected:
  StreamClocksTest() {
    for (const StreamId stream : {A, B, C, D}) clocks.hear(stream);
  }
  ~StreamClocksTest() override { clocks.verify(); }
  StreamClocks clocks;
};

TEST_F(StreamClocksTest, DoneMeansEveryEarlierTickToo) {
  clocks.note_done({A, 5});
  EXPECT_TRUE(clocks.done({A, 5}));
  EXPECT_TRUE(clocks.done({A, 1}));
  EXPECT_FALSE(clocks.done({A, 6}));
  EXPECT_FALSE(clocks.done({B, 1}));
  clocks.note_done({A, 3});  // old news
  EXPECT_TRUE(clocks.done({A, 5}));
}

TEST_F(StreamClocksTest, WhatIsDoneIsInOrderForEverybody) {
  clocks.note_done({A, 5});
  EXPECT_TRUE(clocks.ordered(B, {A, 5}));
  EXPECT_FALSE(clocks.ordered(B, {A, 6}));
}

TEST_F(StreamClocksTest, AStreamIsOrderedAfterItselfAndAfterWhatItWaitedFor) {
  clocks.note_wait(B, {A, 5}, /*position=*/0);
  EXPECT_TRUE(clocks.ordered(A, {A, 100}));
  EXPECT_TRUE(clocks.ordered(B, {A, 5}));
  EXPECT_FALSE(clocks.ordered(B, {A, 6}));
  EXPECT_FALSE(clocks.ordered(A, {B, 1}));
}

// A  --1--2--.
// B          wait A@2 --1--.
// C                        wait B@1
TEST_F(StreamClocksTest, WaitsReachThroughOtherStreams) {
  clocks.note_wait(B, {A, 2}, 0);
  clocks.note_wait(C, {B, 1}, 0);
  EXPECT_TRUE(clocks.ordered(C, {A, 2}));
  EXPECT_FALSE(clocks.ordered(C, {A, 3}));
}

// A  --------1--.
// B  --1--2--3-- wait A@1 --4
// C  waits for B@3: recorded before B's wait, so nothing is known of A
// D  waits for B@4: recorded after it
TEST_F(StreamClocksTest, ATickImpliesOnlyTheWaitsBeforeIt) {
  clocks.note_wait(B, {A, 1}, /*position=*/3);
  clocks.note_wait(C, {B, 3}, 0);
  EXPECT_FALSE(clocks.ordered(C, {A, 1}));
  clocks.note_wait(D, {B, 4}, 0);
  EXPECT_TRUE(clocks.ordered(D, {A, 1}));
  EXPECT_FALSE(clocks.implies({B, 3}, {A, 1}));
  EXPECT_TRUE(clocks.implies({B, 4}, {A, 1}));
}

TEST_F(StreamClocksTest, ADoneTickMakesWhatItImpliesDone) {
  clocks.note_wait(B, {A, 2}, 0);
  clocks.note_wait(C, {B, 1}, 7);
  clocks.note_done({C, 7});
  EXPECT_FALSE(clocks.done({B, 1}));
  clocks.note_done({C, 8});
  EXPECT_TRUE(clocks.done({B, 1}));
  EXPECT_TRUE(clocks.done({A, 2}));
  EXPECT_FALSE(clocks.done({A, 3}));
}

// The pool has heard of B@9, so a wait reported now cannot have been enqueued before it.
TEST_F(StreamClocksTest, APositionBelowATickHeardOfCountsAsThatTick) {
  clocks.hear({B, 9});
  clocks.note_wait(B, {A, 1}, /*position=*/0);
  EXPECT_FALSE(clocks.implies({B, 9}, {A, 1}));
  EXPECT_TRUE(clocks.implies({B, 10}, {A, 1}));
}

TEST_F(StreamClocksTest, PendingIsTheNewestTickHeardOfUntilItIsDone) {
  EXPECT_EQ(clocks.pending(A), std::nullopt);
  EXPECT_EQ(clocks.pending({77}), std::nullopt);
  clocks.hear({A, 3});
  clocks.note_wait(B, {A, 6}, 0);
  EXPECT_EQ(clocks.pending(A), (Tick{A, 6}));
  clocks.note_done({A, 4});
  EXPECT_EQ(clocks.pending(A), (Tick{A, 6}));
  clocks.note_done({A, 6});
  EXPECT_EQ(clocks.pending(A), std::nullopt);
}

TEST_F(StreamClocksTest, OnlyTicksThatNoOtherImpliesAreLeft) {
  clocks.note_wait(B, {A, 2}, 0);
  std::vector<Tick> ticks{{A, 2}, {B, 1}, {C, 4}};
  clocks.drop_implied(ticks);
  EXPECT_THAT(ticks, ElementsAre(Tick{B, 1}, Tick{C, 4}));
}

TEST_F(StreamClocksTest, OfTicksSaidToImplyEachOtherOneIsLeft) {
  clocks.note_wait(B, {A, 2}, 0);
  clocks.note_wait(A, {B, 1}, 0);
  std::vector<Tick> ticks{{A, 2}, {B, 1}};
  clocks.drop_implied(ticks);
  EXPECT_EQ(ticks.size(), 1U);
}

// A waits for C once, early, then for ever newer ticks of B while nothing becomes known as done.
TEST_F(StreamClocksTest, ALongHistoryForgetsPositionsButNotOrder) {
  constexpr std::uint64_t kWaits = 10 * StreamClocks::kLongestHistory;
  clocks.note_wait(A, {C, 1}, 0);
  for (std::uint64_t i = 1; i <= kWaits; ++i) clocks.note_wait(A, {B, i}, i);
  EXPECT_TRUE(clocks.ordered(A, {B, kWaits}));
  EXPECT_TRUE(clocks.ordered(A, {C, 1}));
  EXPECT_TRUE(clocks.implies({A, kWaits + 1}, {B, kWaits}));
  EXPECT_TRUE(clocks.implies({A, kWaits + 1}, {C, 1}));
  for (std::uint64_t i = 1; i <= kWaits; ++i) {
    EXPECT_FALSE(clocks.implies({A, i}, {B, i})) << "the wait came after tick " << i;
  }
}

TEST_F(StreamClocksTest, StreamsAreCountedOnce) {
  StreamClocks fresh;
  fresh.hear(B);
  fresh.hear({B, 3});
  EXPECT_EQ(fresh.known(), 1);
  EXPECT_EQ(fresh.size(), 2U);
  fresh.note_wait(B, {D, 1}, 0);
  EXPECT_EQ(fresh.known(), 2);
}

TEST_F(StreamClocksTest, AnInvalidStreamIsAMistake) { EXPECT_THROW(clocks.hear(StreamId{}), InvariantError); }

}  // namespace
}  // namespace spillway
