#include "engine/script_words.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace spillway {
namespace {

// Three ops: what the first made leaves after it and comes back before the last, in a place of its own.
Lines some_lines() {
  auto places = std::make_shared<Places>();
  places->entries = {{.size = 4_KiB, .offset = 1_GiB, .gap = kNoPlace}, {.size = 4_KiB, .offset = 2_GiB, .gap = 0}};
  places->lasting = {{.storage = StorageId{3}, .size = 1_MiB, .offset = 3_GiB}};
  places->first = {0, 0, 1, 1, 2};
  places->of_gap = {1};
  const Leaving leaving{.gap = 0, .nth = 2, .part = Part::output, .remedy = Remedy::drop, .again = true};
  return {.keys = {7, std::uint64_t{1} << 63, 9},
          .any_size = true,
          .staying_away = {{0, StorageId{5}}},
          .needs = {1_KiB, 0_B, 2_KiB},
          .leavings = {{leaving}, {}, {}},
          .holdings = {{}, {{leaving, 2}}, {}},
          .fetches = {{}, {}, {0}},
          .ends = {2},
          .budget = 10_MiB,
          .places = places};
}

TEST(ScriptWords, AreReadBackAsTheyWere) {
  const Lines lines = some_lines();
  const Lines read = parse_lines(to_words(lines));

  EXPECT_EQ(to_words(read), to_words(lines));
  EXPECT_EQ(read.keys, lines.keys);
  EXPECT_TRUE(read.any_size);
  EXPECT_EQ(read.budget, 10_MiB);
  EXPECT_EQ(read.leavings[0][0].remedy, Remedy::drop);
  EXPECT_EQ(read.leavings[0][0].nth, 2);
  EXPECT_TRUE(read.leavings[0][0].again);
  EXPECT_EQ(read.holdings[1][0].through, 2u);
  EXPECT_EQ(read.fetches, lines.fetches);
  ASSERT_TRUE(read.places);
  EXPECT_EQ(read.places->entries[1].offset, 2_GiB);
  EXPECT_EQ(read.places->lasting[0].storage, StorageId{3});

  const Script script(read);
  EXPECT_EQ(script.op_count(), 3u);
  EXPECT_TRUE(script.is_next(0, {.shape = 7, .sized = 0}));
  EXPECT_TRUE(script.acts_after(0));
  EXPECT_TRUE(script.acts_after(1));
  EXPECT_TRUE(script.acts_after(2));
}

TEST(ScriptWords, OfAScriptWithoutPlacesHaveNone) {
  Lines lines = some_lines();
  lines.places.reset();
  EXPECT_FALSE(parse_lines(to_words(lines)).places);
}

TEST(ScriptWords, ThatEndEarlyOrLateAreRefused) {
  std::vector<std::uint64_t> words = to_words(some_lines());
  for (std::size_t count = 0; count < words.size(); ++count) {
    EXPECT_THROW((void)parse_lines(std::span(words).first(count)), InputError) << count;
  }
  words.push_back(0);
  EXPECT_THROW((void)parse_lines(words), InputError);
}

// Whoever goes by them looks things up by what they name.
TEST(ScriptWords, ThatNameWhatIsNotThereAreRefused) {
  const auto expect_refused = [](auto change) {
    Lines lines = some_lines();
    change(lines);
    EXPECT_THROW((void)parse_lines(to_words(lines)), InputError);
  };
  const auto change_places = [](auto change) {
    return [change](Lines& lines) {
      auto places = std::make_shared<Places>(*lines.places);
      change(*places);
      lines.places = places;
    };
  };
  expect_refused([](Lines& lines) { lines.leavings[0][0].gap = 1; });
  expect_refused([](Lines& lines) { lines.leavings[0][0].part = static_cast<Part>(3); });
  expect_refused([](Lines& lines) { lines.leavings[0][0].remedy = static_cast<Remedy>(3); });
  expect_refused([](Lines& lines) { lines.holdings[1][0].through = 3; });
  expect_refused([](Lines& lines) { lines.fetches[2][0] = 1; });
  expect_refused([](Lines& lines) { lines.staying_away[0].first = 1; });
  expect_refused([](Lines& lines) { lines.needs.pop_back(); });
  expect_refused([](Lines& lines) { lines.fetches.emplace_back(); });
  expect_refused(change_places([](Places& places) { places.first = {0, 0, 1, 2}; }));
  expect_refused(change_places([](Places& places) { places.first = {0, 2, 1, 1, 2}; }));
  expect_refused(change_places([](Places& places) { places.first = {0, 0, 1, 1, 3}; }));
  expect_refused(change_places([](Places& places) { places.of_gap = {2}; }));
}

}  // namespace
}  // namespace spillway
