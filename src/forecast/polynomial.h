// What a number of bytes is, as a polynomial of a step's coordinates, found from few samples.
//
// Sizes are products of dimensions, so few terms explain them exactly: terms are added one by one, each the one that leaves
// the least error on samples it was not fitted to (leave one out), lower degrees first, until nothing improves.
// A coordinate may be a size itself (batch times length), so a term may also divide by one.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace spillway {

inline constexpr std::size_t kMostCoordinates = 3;

// The terms that may occur over so many coordinates; the first is the constant.
class Basis {
 public:
  explicit Basis(std::size_t coordinates);

  [[nodiscard]] std::size_t size() const { return powers_.size(); }
  // Of all terms at a point.
  void evaluate(std::span<const double> at, std::vector<double>& values) const;

 private:
  std::size_t coordinates_;
  std::vector<std::array<std::int8_t, kMostCoordinates>> powers_;
};

struct Polynomial {
  static constexpr std::size_t kMostTerms = 3;
  std::array<std::uint16_t, kMostTerms> terms{};  // of the basis
  std::array<double, kMostTerms> factors{};
  std::size_t count = 0;

  [[nodiscard]] double evaluate(std::span<const double> values) const {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += factors[i] * values[terms[i]];
    return sum;
  }
};

struct Fit {
  Polynomial best, second;  // second: what would have explained the samples nearly as well
  double error = 0;         // the largest on a sample left out; 0 when every sample is met to the byte

  [[nodiscard]] bool is_exact() const { return error == 0; }
  // How wrong it may be at a point `beyond` times the sampled range away from it.
  [[nodiscard]] double error_at(std::span<const double> values, double beyond) const;
};

// `samples`: the values of the basis at each, none twice; `wanted`: what was seen there.
[[nodiscard]] Fit fit_polynomial(std::span<const std::vector<double>> samples, std::span<const double> wanted);

}  // namespace spillway
