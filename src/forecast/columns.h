// Numbers of bytes that a kind of step has at fixed places, and what each is as a polynomial of the step's coordinates.
//
// Most places hold the same number in every step (every layer makes the same activations): those are one column, fitted once.
// A column falls apart when its places first differ. The coordinates are found by watching: of the numbers known early in a
// step (marks), those that explain the columns best.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "forecast/polynomial.h"

namespace spillway {

// The coordinates of one step.
using Signature = std::vector<double>;

class Columns {
 public:
  // `values`: by place; `marks`: the same numbers of them in every step.
  void observe(std::span<const std::int64_t> values, std::span<const double> marks);

  // Which marks are the coordinates.
  [[nodiscard]] const std::vector<std::uint32_t>& coordinates() const { return coordinates_; }
  [[nodiscard]] Signature signature(std::span<const double> marks) const;
  [[nodiscard]] std::size_t samples() const { return samples_.size(); }
  [[nodiscard]] std::uint32_t observed() const { return observed_; }
  // The least and the most seen of a coordinate.
  [[nodiscard]] std::pair<double, double> range(std::size_t coordinate) const;

  struct Prediction {
    std::vector<std::int64_t> values;  // by place
    std::vector<std::int64_t> errors;  // by place: how much more it may be; empty: none
    double beyond = 0;                 // how far outside of what was seen, as a part of it
  };
  [[nodiscard]] Prediction predict(std::span<const double> signature) const;
  // How far the nearest sample is, in parts of its size.
  [[nodiscard]] double distance(std::span<const double> signature) const;
  [[nodiscard]] double beyond(std::span<const double> signature) const;
  [[nodiscard]] std::size_t column_count() const { return columns_.size(); }

 private:
  struct Column {
    std::vector<double> seen;  // by sample
    std::uint32_t places = 0;
    bool varies = false;
    Fit fit;
  };
  struct Sample {
    std::vector<double> marks;
    Signature at;
    std::vector<double> basis;
  };

  void start(std::span<const std::int64_t> values);
  void split(std::span<const std::int64_t> values);
  [[nodiscard]] std::size_t place_of_sample(std::span<const double> marks);
  void fit_again(bool all);
  void rebase();
  // The coordinates that leave the least unexplained.
  void choose_coordinates();
  [[nodiscard]] double unexplained(const std::vector<std::uint32_t>& coordinates) const;
  [[nodiscard]] std::vector<std::uint32_t> candidates() const;

  std::vector<std::uint32_t> column_of_;  // by place
  std::vector<Column> columns_;
  std::vector<Sample> samples_;
  std::size_t next_ = 0;                  // the sample that is replaced next, once there are enough
  std::uint32_t observed_ = 0;
  std::vector<std::uint32_t> coordinates_;
  Basis basis_{0};
};

}  // namespace spillway
