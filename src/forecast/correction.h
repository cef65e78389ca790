// What kinds of ops take beside what was estimated for them: estimates from shapes are right but for a factor, which measured
// ops teach.
//
// Each op that is being measured is told by `expect`; `correct` has their times, in the same order. Where those come later, what is
// expected is taken along until then.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/units.h"

namespace spillway {

class Correction {
 public:
  // `estimated`: without any correction; zero: nobody estimated it.
  void expect(std::uint64_t kind, Nanos estimated) { expected_.push_back({kind, estimated}); }
  struct Expected {
    std::uint64_t kind = 0;
    Nanos estimated;
  };
  // Of all that was told since the last call.
  [[nodiscard]] std::vector<Expected> take_expected() { return std::exchange(expected_, {}); }
  // Times that do not belong to what was expected teach nothing.
  void correct(std::span<const Expected> expected, std::span<const Nanos> measured);
  // 1 for a kind that was never measured.
  [[nodiscard]] double factor(std::uint64_t kind) const;

 private:
  struct Sums {
    double estimated = 0, measured = 0;
  };
  std::vector<Expected> expected_;
  std::unordered_map<std::uint64_t, Sums> sums_;
};

}  // namespace spillway
