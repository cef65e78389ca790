// What kinds of ops take beside what was estimated for them: estimates from shapes are right but for a factor, which measured
// ops teach.
//
// Each op that is being measured is told by `expect`; `correct` has their times, in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/units.h"

namespace spillway {

class Correction {
 public:
  // `estimated`: without any correction; zero: nobody estimated it.
  void expect(std::uint64_t kind, Nanos estimated) { expected_.push_back({kind, estimated}); }
  // Times that do not belong to what was told since the last call teach nothing.
  void correct(std::span<const Nanos> measured);
  // 1 for a kind that was never measured.
  [[nodiscard]] double factor(std::uint64_t kind) const;

 private:
  struct Expected {
    std::uint64_t kind = 0;
    Nanos estimated;
  };
  struct Sums {
    double estimated = 0, measured = 0;
  };
  std::vector<Expected> expected_;
  std::unordered_map<std::uint64_t, Sums> sums_;
};

}  // namespace spillway
