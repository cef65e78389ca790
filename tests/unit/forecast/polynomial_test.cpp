#include "forecast/polynomial.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace spillway {
namespace {

using Point = std::vector<double>;

Fit fit_at(std::span<const Point> points, const std::function<double(const Point&)>& bytes) {
  const Basis basis(points[0].size());
  std::vector<std::vector<double>> rows;
  std::vector<double> wanted;
  for (const Point& point : points) {
    basis.evaluate(point, rows.emplace_back());
    wanted.push_back(bytes(point));
  }
  return fit_polynomial(rows, wanted);
}

double at(const Fit& fit, const Point& point) {
  std::vector<double> values;
  Basis(point.size()).evaluate(point, values);
  return fit.best.evaluate(values);
}

TEST(FitPolynomial, FindsAProductOfDimensionsFromTwoSamples) {
  const std::vector<Point> points{{30}, {332}};
  const auto scores = [](const Point& length) { return 4.0 * 12 * length[0] * length[0]; };

  const Fit fit = fit_at(points, scores);

  EXPECT_TRUE(fit.is_exact());
  EXPECT_DOUBLE_EQ(at(fit, {128}), scores({128}));
}

TEST(FitPolynomial, FindsAConstant) {
  const std::vector<Point> points{{30}, {332}, {77}};

  const Fit fit = fit_at(points, [](const Point&) { return 4096.0; });

  EXPECT_TRUE(fit.is_exact());
  EXPECT_EQ(fit.best.count, 1u);
  EXPECT_DOUBLE_EQ(at(fit, {1000}), 4096);
}

TEST(FitPolynomial, AddsTermsUntilTheyExplainASum) {
  const std::vector<Point> points{{30}, {332}, {77}, {200}};
  const auto bytes = [](const Point& at) { return 8192 + 512 * at[0] + 48 * at[0] * at[0]; };

  const Fit fit = fit_at(points, bytes);

  EXPECT_TRUE(fit.is_exact());
  EXPECT_NEAR(at(fit, {512}), bytes({512}), 0.5);
}

TEST(FitPolynomial, TellsBatchFromLength) {
  const std::vector<Point> points{{4, 30}, {8, 332}, {5, 77}, {8, 100}};  // batch, length
  const auto scores = [](const Point& at) { return 4 * 12 * at[0] * at[1] * at[1]; };

  EXPECT_NEAR(at(fit_at(points, scores), {3, 200}), scores({3, 200}), 0.5);
}

TEST(FitPolynomial, DividesWhereASizeIsItselfAProduct) {
  // The first coordinate is batch times length, the second length: scores are their product; hidden states the first alone.
  const std::vector<Point> points{{4 * 30, 4}, {8 * 332, 8}, {5 * 77, 5}, {8 * 100, 8}};  // tokens, batch
  const auto scores = [](const Point& at) { return 4 * at[0] * at[0] / at[1]; };

  EXPECT_NEAR(at(fit_at(points, scores), {600, 3}), scores({600, 3}), 0.5);
}

TEST(FitPolynomial, SaysHowWrongItMayBe) {
  std::mt19937 dice(7);
  std::vector<Point> points;
  for (int i = 0; i < 12; ++i) points.push_back({static_cast<double>(30 + dice() % 300)});
  const auto noisy = [&](const Point& at) { return 1e6 + 1e4 * at[0] + static_cast<double>(dice() % 100'000); };

  const Fit fit = fit_at(points, noisy);

  EXPECT_FALSE(fit.is_exact());
  EXPECT_GT(fit.error, 1e4);
  EXPECT_LT(fit.error, 3e5);
  std::vector<double> values;
  Basis(1).evaluate(Point{900}, values);
  EXPECT_GT(fit.error_at(values, /*beyond=*/2), fit.error_at(values, 0));
}

TEST(FitPolynomial, TakesOneSampleForAConstant) {
  const std::vector<Point> points{{30}};

  EXPECT_DOUBLE_EQ(at(fit_at(points, [](const Point&) { return 123.0; }), {60}), 123);
}

}  // namespace
}  // namespace spillway
