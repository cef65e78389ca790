#include "forecast/polynomial.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

namespace spillway {

namespace {

using Powers = std::array<std::int8_t, kMostCoordinates>;

constexpr int kMostDegree = 3;          // batch times length squared
constexpr double kHalfAByte = 0.5;
constexpr double kCollinear = 1e-9;     // of a term's length, left after what other terms say
constexpr double kNoFreedom = 1e-9;     // a sample that decides alone
constexpr double kBetter = 0.5;         // of the error: worth one more term
constexpr double kClearlyBetter = 0.9;  // worth a term of a higher degree
constexpr double kInfinite = std::numeric_limits<double>::infinity();

int degree_of(const Powers& powers) {
  int degree = 0;
  for (const int power : powers) degree += std::abs(power);
  return degree;
}

// Terms are added by Gram-Schmidt: a column of `q` each, orthogonal to those before.
class Regression {
 public:
  Regression(std::span<const std::vector<double>> samples, std::span<const double> wanted)
      : samples_(samples), rest_(wanted.begin(), wanted.end()), freedom_(wanted.size(), 1.0) {
    for (const double one : wanted) scale_ = std::max(scale_, std::abs(one));
  }

  struct Term {
    std::uint16_t term = 0;
    std::vector<double> q;
    std::array<double, Polynomial::kMostTerms> r{};  // the term in terms of the columns of `q`
    double error = kInfinite;                        // left-out, after it is added
  };

  [[nodiscard]] std::optional<Term> consider(std::uint16_t term) const {
    Term found{.term = term, .q = std::vector<double>(samples_.size()), .r = {}};
    double length = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) found.q[i] = samples_[i][term], length += found.q[i] * found.q[i];
    for (std::size_t j = 0; j < terms_.size(); ++j) {
      found.r[j] = dot(terms_[j].q, found.q);
      for (std::size_t i = 0; i < found.q.size(); ++i) found.q[i] -= found.r[j] * terms_[j].q[i];
    }
    const double left = std::sqrt(dot(found.q, found.q));
    if (left <= kCollinear * std::sqrt(length)) return std::nullopt;
    for (double& one : found.q) one /= left;
    found.r[terms_.size()] = left;
    found.error = error_with(found.q);
    return found;
  }

  void add(const Term& term) {
    const double factor = dot(term.q, rest_);
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      rest_[i] -= factor * term.q[i];
      freedom_[i] -= term.q[i] * term.q[i];
    }
    terms_.push_back(term);
    along_.push_back(factor);
  }

  [[nodiscard]] Polynomial polynomial() const {
    Polynomial found{.terms = {}, .factors = {}, .count = terms_.size()};
    for (std::size_t j = terms_.size(); j-- > 0;) {
      double factor = along_[j];
      for (std::size_t k = j + 1; k < terms_.size(); ++k) factor -= terms_[k].r[j] * found.factors[k];
      found.terms[j] = terms_[j].term;
      found.factors[j] = factor / terms_[j].r[j];
    }
    return found;
  }

 private:
  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }

  // Zero when every sample is met to the byte.
  [[nodiscard]] double error_with(const std::vector<double>& q) const {
    const double factor = dot(q, rest_);
    double worst = 0, miss = 0;
    for (std::size_t i = 0; i < q.size(); ++i) {
      const double rest = std::abs(rest_[i] - factor * q[i]), freedom = freedom_[i] - q[i] * q[i];
      if (freedom <= kNoFreedom && q.size() > 1) return kInfinite;
      miss = std::max(miss, rest);
      worst = std::max(worst, rest / std::max(freedom, kNoFreedom));
    }
    return miss < kHalfAByte + scale_ * 1e-12 ? 0 : worst;
  }

  std::span<const std::vector<double>> samples_;
  std::vector<double> rest_, freedom_, along_;
  std::vector<Term> terms_;
  double scale_ = 0;
};

}  // namespace

Basis::Basis(std::size_t coordinates) : coordinates_(coordinates) {
  Powers at{};
  const auto add = [&](auto&& self, std::size_t next) -> void {
    if (next < coordinates_) {
      for (at[next] = -1; at[next] <= 2; ++at[next]) self(self, next + 1);
      at[next] = 0;
      return;
    }
    const bool grows = std::ranges::any_of(at, [](int power) { return power > 0; });
    if (grows && degree_of(at) <= kMostDegree) powers_.push_back(at);
  };
  add(add, 0);
  // Without divisions first, low degrees first: of equals the simpler one is taken.
  const auto order = [](const Powers& powers) {
    return std::pair(std::ranges::count_if(powers, [](int power) { return power < 0; }), degree_of(powers));
  };
  std::ranges::stable_sort(powers_, {}, order);
  powers_.insert(powers_.begin(), Powers{});
}

void Basis::evaluate(std::span<const double> at, std::vector<double>& values) const {
  values.clear();
  for (const Powers& powers : powers_) {
    double value = 1;
    for (std::size_t i = 0; i < coordinates_; ++i) {
      for (int times = 0; times < powers[i]; ++times) value *= at[i];
      if (powers[i] < 0) value /= at[i];
    }
    values.push_back(value);
  }
}

double Fit::error_at(std::span<const double> values, double beyond) const {
  if (is_exact()) return 0;
  const double doubt = std::abs(best.evaluate(values) - second.evaluate(values));
  return error * (1 + beyond) * (1 + beyond) + doubt;
}

Fit fit_polynomial(std::span<const std::vector<double>> samples, std::span<const double> wanted) {
  Fit fit{.best = {}, .second = {}, .error = kInfinite};
  Regression regression(samples, wanted);
  const std::size_t most = std::min(Polynomial::kMostTerms, std::max<std::size_t>(samples.size(), 2) - 1);
  for (std::size_t count = 0; count < most && fit.error > 0; ++count) {
    std::optional<Regression::Term> best, second;
    for (std::uint16_t term = 0; term < samples[0].size(); ++term) {
      auto found = regression.consider(term);
      if (!found) continue;
      if (!best || found->error < best->error * kClearlyBetter) second = std::exchange(best, std::move(found));
      else if (!second || found->error < second->error) second = std::move(found);
    }
    if (!best || (count > 0 && best->error > fit.error * kBetter)) break;
    Regression other = regression;
    if (second) other.add(*second);
    regression.add(*best);
    fit = {.best = regression.polynomial(), .second = other.polynomial(), .error = best->error};
  }
  return fit;
}

}  // namespace spillway
