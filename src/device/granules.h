// How finely the memory of a card is held to a budget.
#pragma once

#include <optional>

#include "base/units.h"

namespace spillway {

// Committing costs 46 us a granule whatever its size (CudaOptions::granule), and the smallest a card has are 2 MiB: a budget
// has at least some hundreds of them, as long as they are not that small.
[[nodiscard]] inline Bytes card_granule(std::optional<Bytes> budget) {
  constexpr Bytes kSmallest = 2_MiB, kLargest = 16_MiB;
  constexpr std::int64_t kAtLeast = 256;
  Bytes granule = kLargest;
  while (budget && granule > kSmallest && granule * kAtLeast > *budget) granule = granule / 2;
  return granule;
}

}  // namespace spillway
