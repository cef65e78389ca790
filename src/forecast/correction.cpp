#include "forecast/correction.h"

#include <algorithm>

namespace spillway {

namespace {

constexpr double kMost = 8;  // either way: beyond that something else was measured, or nothing was

}  // namespace

void Correction::correct(std::span<const Expected> expected, std::span<const Nanos> measured) {
  if (measured.size() != expected.size()) return;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].estimated <= 0_ns) continue;
    Sums& sums = sums_[expected[i].kind];
    sums.estimated += static_cast<double>(expected[i].estimated.count);
    sums.measured += static_cast<double>(measured[i].count);
  }
}

double Correction::factor(std::uint64_t kind) const {
  const auto found = sums_.find(kind);
  return found == sums_.end() ? 1 : std::clamp(found->second.measured / found->second.estimated, 1 / kMost, kMost);
}

}  // namespace spillway
