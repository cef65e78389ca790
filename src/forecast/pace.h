// How long an op takes by the bytes it touches: a polynomial of degree 0 to 2, whichever told the next time best so far.
//
// Older samples fade. What is told never lies far from all that was seen.
#pragma once

#include <array>
#include <cstdint>

namespace spillway {

class Pace {
 public:
  void observe(double bytes, double nanos);
  [[nodiscard]] double predict(double bytes) const;

 private:
  static constexpr std::size_t kDegrees = 3;
  void solve();
  [[nodiscard]] double at(std::size_t degree, double x) const;

  double unit_ = 0;                            // bytes of the first sample: numbers stay near 1
  std::array<double, 5> powers_{};             // sums of x^k
  std::array<double, 3> moments_{};            // sums of x^k t
  std::array<double, 6> factors_{};            // degree 0: [0]; 1: [1..2]; 2: [3..5]
  std::array<double, kDegrees> wrong_{}, told_{};  // fading sums of what each got wrong beforehand, and how often it told
  std::array<bool, kDegrees> known_{};
  double least_ = 0, most_ = 0, largest_ = 0;
};

}  // namespace spillway
