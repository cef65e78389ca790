#include "forecast/pace.h"

#include <algorithm>
#include <cmath>

namespace spillway {

namespace {

constexpr double kFade = 0.9;
constexpr double kTold = 1.5;          // so often beforehand (twice, the first time faded) before it may be chosen
constexpr double kSingular = 1e-6;
constexpr double kFarOff = 4;          // times what was ever seen

}  // namespace

double Pace::at(std::size_t degree, double x) const {
  if (degree == 0) return factors_[0];
  if (degree == 1) return factors_[1] + factors_[2] * x;
  return factors_[3] + (factors_[4] + factors_[5] * x) * x;
}

void Pace::observe(double bytes, double nanos) {
  if (unit_ == 0) unit_ = std::max(bytes, 1.0);
  const double x = bytes / unit_;
  for (std::size_t degree = 0; degree < kDegrees; ++degree) {
    if (!known_[degree]) continue;
    wrong_[degree] = kFade * wrong_[degree] + std::abs(at(degree, x) - nanos);
    told_[degree] = kFade * told_[degree] + 1;
  }
  least_ = most_ == 0 ? nanos : std::min(least_, nanos);
  most_ = std::max(most_, nanos);
  largest_ = std::max(largest_, x);
  double power = 1;
  for (std::size_t k = 0; k < powers_.size(); ++k, power *= x) {
    powers_[k] = kFade * powers_[k] + power;
    if (k < moments_.size()) moments_[k] = kFade * moments_[k] + power * nanos;
  }
  solve();
}

// The normal equations, by Cramer's rule. What the samples do not decide stays unknown.
void Pace::solve() {
  const auto& s = powers_;
  const auto& t = moments_;
  factors_[0] = t[0] / s[0];
  known_[0] = true;
  const double two = s[0] * s[2] - s[1] * s[1];
  known_[1] = two > kSingular * s[0] * s[2];
  if (!known_[1]) return;
  factors_[1] = (t[0] * s[2] - t[1] * s[1]) / two;
  factors_[2] = (s[0] * t[1] - s[1] * t[0]) / two;
  const double a = s[2] * s[4] - s[3] * s[3], b = s[1] * s[4] - s[2] * s[3], c = s[1] * s[3] - s[2] * s[2];
  const double three = s[0] * a - s[1] * b + s[2] * c;
  known_[2] = three > kSingular * s[0] * s[2] * s[4];
  if (!known_[2]) return;
  factors_[3] = (t[0] * a - s[1] * (t[1] * s[4] - s[3] * t[2]) + s[2] * (t[1] * s[3] - s[2] * t[2])) / three;
  factors_[4] = (s[0] * (t[1] * s[4] - s[3] * t[2]) - t[0] * b + s[2] * (s[1] * t[2] - t[1] * s[2])) / three;
  factors_[5] = (s[0] * (s[2] * t[2] - t[1] * s[3]) - s[1] * (s[1] * t[2] - t[1] * s[2]) + t[0] * c) / three;
}

double Pace::predict(double bytes) const {
  if (unit_ == 0) return 0;
  const double x = bytes / unit_;
  std::size_t best = 0;
  for (std::size_t degree = 1; degree < kDegrees; ++degree) {
    if (known_[degree] && told_[degree] > kTold && wrong_[degree] * told_[best] < wrong_[best] * told_[degree]) best = degree;
  }
  const double beyond = std::max(1.0, x / std::max(largest_, 1e-9));
  return std::clamp(at(best, x), least_ / kFarOff, most_ * kFarOff * beyond);
}

}  // namespace spillway
