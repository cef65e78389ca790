// A plan made for one size, taken for another: which of its gaps are needed there, and whether they are enough.
//
// Cheap, because the training thread waits for it: whoever is away counts as gone from the first op of its gap to the last,
// copies on their way and rebuilds are not counted. So a plan is enough for another size when, by this same count, it leaves
// no more than it leaves at its own. Where it is not, gaps of its reserve leave, too: those at the place in need, in their order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "liveness/gaps.h"
#include "liveness/liveness.h"

namespace spillway {

struct Reuse {
  Bytes peak;                // that the gaps leave
  std::vector<bool> spared;  // by gap: within the limit without it, or of no use; empty: all are needed
};

// The peak the gaps leave of the step.
[[nodiscard]] Bytes peak_beside(const Liveness& step, std::span<const Gap> gaps);

// Where the peak is below the limit, gaps are spared as long as it stays there, in this order; without one those first that begin
// last, which relieve least. `reserve`: how many of them, the last, are there for when the others are not enough.
[[nodiscard]] Reuse reuse_gaps(const Liveness& step, std::span<const Gap> gaps, Bytes limit, std::span<const std::uint32_t> order = {},
                               std::size_t reserve = 0);

}  // namespace spillway
