#include "forecast/correction.h"

#include <gtest/gtest.h>

#include <array>

namespace spillway {
namespace {

constexpr std::uint64_t kNorm = 1, kProduct = 2;

TEST(Correction, AKindThatWasNeverMeasuredIsAsEstimated) { EXPECT_EQ(Correction().factor(kNorm), 1); }

TEST(Correction, MeasuredOpsTeachTheFactorOfTheirKind) {
  Correction correction;
  correction.expect(kNorm, 10_ns);
  correction.expect(kProduct, 100_ns);
  correction.expect(kNorm, 30_ns);
  correction.correct(correction.take_expected(), std::array{40_ns, 50_ns, 80_ns});

  EXPECT_DOUBLE_EQ(correction.factor(kNorm), 3);
  EXPECT_DOUBLE_EQ(correction.factor(kProduct), 0.5);
}

TEST(Correction, TimesOfOtherOpsTeachNothing) {
  Correction correction;
  correction.expect(kNorm, 10_ns);
  correction.correct(correction.take_expected(), std::array{40_ns, 50_ns});
  EXPECT_EQ(correction.factor(kNorm), 1);

  correction.expect(kNorm, 10_ns);
  correction.correct(correction.take_expected(), std::array{20_ns});
  EXPECT_DOUBLE_EQ(correction.factor(kNorm), 2);
}

TEST(Correction, WhatNobodyEstimatedTeachesNothing) {
  Correction correction;
  correction.expect(kNorm, 0_ns);
  correction.correct(correction.take_expected(), std::array{40_ns});

  EXPECT_EQ(correction.factor(kNorm), 1);
}

TEST(Correction, WhatIsToldBeforeTheTimesComeIsNotMixedUpWithThem) {
  Correction correction;
  correction.expect(kNorm, 10_ns);
  const auto expected = correction.take_expected();
  correction.expect(kProduct, 10_ns);
  correction.correct(expected, std::array{40_ns});

  EXPECT_DOUBLE_EQ(correction.factor(kNorm), 4);
  EXPECT_EQ(correction.factor(kProduct), 1);
}

TEST(Correction, HasBounds) {
  Correction correction;
  correction.expect(kNorm, 1_ns);
  correction.expect(kProduct, 1000_ns);
  correction.correct(correction.take_expected(), std::array{1000_ns, 0_ns});

  EXPECT_EQ(correction.factor(kNorm), 8);
  EXPECT_EQ(correction.factor(kProduct), 1.0 / 8);
}

}  // namespace
}  // namespace spillway
