#include "engine/layout.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

// position   0    1    2    3    4    5    6    7    8    9
// a          <------------->                                   during op 0, gives its place back before op 3
// b               <----------------------------->              during op 1
// c                              <-------------->              during op 3: shows that op 3 began after a had gone
// back                                     <------------->     a way back, during op 5, in a's place
// next                                               <--->     another, in b's place as soon as that is free: not earlier
TEST(FindPlaces, AWayBackMayBeginOnceTheOneBeforeItIsGone) {
  const BlockList list{.blocks = {{.there = {1_MiB, 0, 3}, .during = 1},
                                  {.there = {1_MiB, 1, 7}, .during = 2},
                                  {.there = {64_KiB, 4, 7}, .during = 4},
                                  {.there = {1_MiB, 6, 9}, .during = 6, .gap = 0},
                                  {.there = {512_KiB, 8, 10}, .during = 7, .gap = 1}},
                       .lasting = {}, .elsewhere = {}, .small = {}};
  const Places places = find_places(list, /*ops=*/8, {.from = 1_GiB, .limit = 1_GiB});
  ASSERT_EQ(places.of_gap.size(), 2u);
  ASSERT_EQ(places.free_from.size(), 2u);
  EXPECT_EQ(places.entries[places.of_gap[0]].offset, places.entries[0].offset);
  EXPECT_EQ(places.free_from[0], 4u);
  EXPECT_EQ(places.entries[places.of_gap[1]].offset, places.entries[1].offset);
  EXPECT_EQ(places.free_from[1], 7u);
}

TEST(FindPlaces, WhoStaysOverTheStepsEndIsGoneOnceItEndsInTheNext) {
  const BlockList list{.blocks = {{.there = {1_MiB, 0, 1}, .during = 1},
                                  {.there = {1_MiB, 4, 6}, .during = 5, .gap = 0},
                                  {.there = {1_MiB, 8, 2}, .during = 8}},
                       .lasting = {}, .elsewhere = {}, .small = {}};
  const Places places = find_places(list, /*ops=*/8, {.from = 1_GiB, .limit = 1_GiB});
  EXPECT_EQ(places.entries[places.of_gap[0]].offset, places.entries.back().offset);
  EXPECT_EQ(places.free_from[0], 5u);
}

TEST(FindPlaces, WhereNobodyWasAWayBackMayBeginAtOnce) {
  const BlockList list{.blocks = {{.there = {1_MiB, 4, 6}, .during = 5, .gap = 0}}, .lasting = {}, .elsewhere = {}, .small = {}};
  EXPECT_EQ(find_places(list, /*ops=*/8, {.from = 1_GiB, .limit = 1_GiB}).free_from, std::vector{0u});
}

// A block is asked for between two steps, after other places were taken to.
TEST(Layout, WithOtherPlacesNobodyGetsOneBeforeTheNextStep) {
  const auto places = [](std::size_t entries) {
    Places made;
    for (std::size_t at = 0; at < entries; ++at) made.entries.push_back({.size = 1_MiB, .offset = 1_MiB * static_cast<std::int64_t>(at)});
    made.first = {0, static_cast<std::uint32_t>(entries), static_cast<std::uint32_t>(entries)};
    return std::make_shared<const Places>(std::move(made));
  };
  Layout layout;
  layout.use(places(1));
  layout.begin_step(true);
  EXPECT_TRUE(layout.find_place(1_MiB, kNoPlace));
  layout.use(places(1000));
  EXPECT_FALSE(layout.find_place(1_MiB, kNoPlace));
  layout.begin_step(true);
  EXPECT_TRUE(layout.find_place(1_MiB, kNoPlace));
}

TEST(Places, LieInARangeOrNot) {
  Places places;
  places.entries.push_back({.size = 1_MiB, .offset = 3_MiB});
  EXPECT_TRUE(places.lie_in({3_MiB, 4_MiB}));
  EXPECT_FALSE(places.lie_in({4_MiB, 8_MiB}));
  EXPECT_FALSE(places.lie_in({0_MiB, 3_MiB}));
  EXPECT_FALSE(places.lie_in({}));
  places.lasting.push_back({.storage = StorageId{0}, .size = Bytes{INT64_MAX}, .offset = 3_MiB});
  EXPECT_FALSE(places.lie_in({3_MiB, 4_MiB}));
}

}  // namespace
}  // namespace spillway
