#include "forecast/pace.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace spillway {
namespace {

Pace learn(int samples, const std::function<double(double)>& nanos) {
  std::mt19937 dice(3);
  Pace pace;
  for (int i = 0; i < samples; ++i) {
    const double bytes = 1e5 + static_cast<double>(dice() % 1'000'000);
    pace.observe(bytes, nanos(bytes));
  }
  return pace;
}

TEST(Pace, TellsATimeThatDoesNotDependOnTheBytes) {
  EXPECT_NEAR(learn(10, [](double) { return 5000.0; }).predict(3e5), 5000, 1);
}

TEST(Pace, TellsATimeThatGrowsWithTheBytes) {
  EXPECT_NEAR(learn(10, [](double bytes) { return 2000 + bytes / 50; }).predict(7e5), 16'000, 50);
}

TEST(Pace, TellsATimeThatGrowsWithTheirSquare) {
  const auto nanos = [](double bytes) { return 1000 + bytes * bytes / 1e7; };
  EXPECT_NEAR(learn(12, nanos).predict(8e5), nanos(8e5), 600);
}

TEST(Pace, StaysNearWhatWasSeen) {
  const Pace pace = learn(10, [](double bytes) { return 1000 + bytes / 100; });
  EXPECT_GT(pace.predict(1), 0);
  EXPECT_LT(pace.predict(1e9), 1e8);
}

TEST(Pace, ForgetsOldTimes) {
  Pace pace = learn(10, [](double) { return 5000.0; });
  for (int i = 0; i < 40; ++i) pace.observe(5e5, 1000);
  EXPECT_NEAR(pace.predict(5e5), 1000, 100);
}

TEST(Pace, KnowsNothingAtFirst) { EXPECT_EQ(Pace().predict(1e6), 0); }

}  // namespace
}  // namespace spillway
