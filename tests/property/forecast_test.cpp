// Random models, whose storages are products of batch and length: after a few steps every size is told to the byte, and what
// is noise never exceeds what was told of it by more than a look at it would explain.
#include "forecast/forecast.h"

#include <gtest/gtest.h>

#include <random>

#include "forecast/rehearsal.h"
#include "liveness/curve.h"
#include "support/long_run.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

struct Product {
  std::int64_t times = 1;
  int batch = 0, length = 0;  // powers
  [[nodiscard]] Bytes at(std::int64_t b, std::int64_t l) const {
    std::int64_t size = times;
    for (int i = 0; i < batch; ++i) size *= b;
    for (int i = 0; i < length; ++i) size *= l;
    return {size};
  }
};

// Ops that each make a storage from one or two before; all die in the end, some in between.
class RandomModel {
 public:
  explicit RandomModel(std::mt19937& dice) {
    const int ops = 5 + static_cast<int>(dice() % 40);
    for (int i = 0; i < ops; ++i) {
      const int kind = static_cast<int>(dice() % 5);
      made_.push_back({.times = 4 + static_cast<std::int64_t>(dice() % 4096), .batch = kind == 0 ? 0 : 1, .length = kind == 0 ? 0 : kind == 4 ? 2 : 1});
      from_.push_back(i == 0 ? 0 : static_cast<int>(dice() % static_cast<unsigned>(i)));
      until_.push_back(i + 2 + static_cast<int>(dice() % 20));
    }
  }

  void step(StepMaker& maker, std::int64_t batch, std::int64_t length) const {
    maker.begin();
    maker.birth("ids", Bytes{8 * batch * length}, StorageKind::input);
    maker.make("positions", Bytes{8 * length}, {"ids"});
    for (int i = 0; i < count(); ++i) {
      for (int j = 0; j < i; ++j) if (until_[at(j)] == i) maker.death(name(j));
      const bool alive = until_[at(from_[at(i)])] > i && from_[at(i)] < i;
      maker.birth(name(i), made_[at(i)].at(batch, length));
      maker.op("make", {.in = {alive ? name(from_[at(i)]) : "ids"}, .out = {name(i)}});
    }
    for (int j = 0; j < count(); ++j) if (until_[at(j)] >= count()) maker.death(name(j));
    maker.death("positions");
    maker.death("ids");
    maker.end();
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::string name(int i) { return "made" + std::to_string(i); }
  [[nodiscard]] int count() const { return static_cast<int>(made_.size()); }

  std::vector<Product> made_;
  std::vector<int> from_, until_;
};

TEST(ForecastProperty, ProductsOfBatchAndLengthAreToldToTheByteAfterEightSteps) {
  for (int seed = 0; seed < testing::scaled(20); ++seed) {
    std::mt19937 dice(static_cast<unsigned>(seed));
    const RandomModel model(dice);
    StepMaker maker;
    for (int step = 0; step < 14; ++step) model.step(maker, 2 + dice() % 15, 30 + dice() % 300);

    const std::vector<RehearsedStep> steps = rehearse(maker.trace());

    ASSERT_EQ(steps.size(), 14u);
    for (std::size_t i = 9; i < steps.size(); ++i) {
      if (!steps[i].told) continue;  // too far from all before
      EXPECT_EQ(steps[i].told->peak, steps[i].peak) << "seed " << seed << " step " << i;
    }
  }
}

TEST(ForecastProperty, EqualStepsGiveEqualForecasts) {
  std::mt19937 dice(5);
  const RandomModel model(dice);
  StepMaker maker;
  for (int step = 0; step < 10; ++step) model.step(maker, 4, 30 + dice() % 300);

  const auto one = rehearse(maker.trace()), other = rehearse(maker.trace());

  for (std::size_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(one[i].told.has_value(), other[i].told.has_value());
    if (!one[i].told) continue;
    EXPECT_EQ(one[i].told->peak, other[i].told->peak);
    EXPECT_EQ(one[i].told->time, other[i].told->time);
  }
}

}  // namespace
}  // namespace spillway
