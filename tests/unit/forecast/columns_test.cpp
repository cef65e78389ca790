#include "forecast/columns.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

// A step of a model with attention: ids, positions, then hidden states and scores of three layers, and weights.
std::vector<std::int64_t> attention_sizes(std::int64_t batch, std::int64_t length) {
  std::vector<std::int64_t> sizes{8 * batch * length, 8 * length, 1 << 20};
  for (int layer = 0; layer < 3; ++layer) {
    sizes.push_back(4 * 64 * batch * length);
    sizes.push_back(4 * 8 * batch * length * length);
  }
  return sizes;
}

void observe(Columns& columns, std::int64_t batch, std::int64_t length) {
  const auto sizes = attention_sizes(batch, length);
  columns.observe(sizes, std::vector{static_cast<double>(sizes[0]), static_cast<double>(sizes[1]), static_cast<double>(sizes[2])});
}

TEST(Columns, AreAsManyAsThereAreDifferentNumbers) {
  Columns columns;
  for (const int length : {30, 332, 77, 120}) observe(columns, 4, length);

  EXPECT_EQ(columns.column_count(), 5u);  // ids, positions, weights, hidden states, scores
}

TEST(Columns, TellTheSizesOfALengthNeverSeen) {
  Columns columns;
  for (const int length : {30, 332, 77}) observe(columns, 4, length);

  ASSERT_EQ(columns.coordinates().size(), 1u);
  const double ids = 8 * 4 * 200;
  const auto told = columns.predict(std::vector{ids});
  EXPECT_EQ(told.values, attention_sizes(4, 200));
  EXPECT_TRUE(told.errors.empty());
  EXPECT_EQ(told.beyond, 0);
}

TEST(Columns, TakeASecondCoordinateWhenOneDoesNotExplainThem) {
  Columns columns;
  const std::vector<std::pair<int, int>> steps{{4, 30}, {8, 332}, {5, 77}, {8, 100}, {2, 210}, {7, 64}, {1, 300}, {3, 48}};
  for (const auto& [batch, length] : steps) observe(columns, batch, length);

  ASSERT_EQ(columns.coordinates().size(), 2u);
  const auto sizes = attention_sizes(6, 150);
  const Signature at = columns.signature(std::vector{static_cast<double>(sizes[0]), static_cast<double>(sizes[1]), static_cast<double>(sizes[2])});
  EXPECT_EQ(columns.predict(at).values, sizes);
}

TEST(Columns, WhatNobodyCanForeseeComesWithItsError) {
  Columns columns;
  const std::vector<std::int64_t> boxes{900, 100, 500, 800, 300, 200, 700, 600};
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto area = static_cast<std::int64_t>(1000 + 137 * i);
    columns.observe(std::vector<std::int64_t>{12 * area, 64 * area, boxes[i]}, std::vector{static_cast<double>(12 * area)});
  }

  const auto told = columns.predict(std::vector{12.0 * 1300});

  EXPECT_EQ(told.values[1], 64 * 1300);
  ASSERT_EQ(told.errors.size(), 3u);
  EXPECT_EQ(told.errors[1], 0);
  EXPECT_GE(told.values[2] + told.errors[2], 900);
}

TEST(Columns, SayHowFarOutsideOfWhatWasSeenASizeIs) {
  Columns columns;
  for (const int length : {100, 200, 150}) observe(columns, 4, length);

  EXPECT_EQ(columns.beyond(std::vector{8.0 * 4 * 180}), 0);
  EXPECT_NEAR(columns.beyond(std::vector{8.0 * 4 * 300}), 0.5, 1e-9);
  EXPECT_NEAR(columns.beyond(std::vector{8.0 * 4 * 50}), 1.0, 1e-9);
  EXPECT_NEAR(columns.distance(std::vector{8.0 * 4 * 200}), 0, 1e-9);
}

TEST(Columns, NothingVariesWhenStepsAreEqual) {
  Columns columns;
  for (int i = 0; i < 5; ++i) observe(columns, 4, 128);

  EXPECT_TRUE(columns.coordinates().empty());
  EXPECT_EQ(columns.samples(), 1u);
  EXPECT_EQ(columns.predict({}).values, attention_sizes(4, 128));
}

}  // namespace
}  // namespace spillway
