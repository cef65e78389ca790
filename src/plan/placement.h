// Addresses for blocks whose lifetimes are known: two that are there at the same time never overlap, and the highest end
// is low.
//
// A step's blocks come and go at positions 0..last in the order in which the run asks for them and gives them back; the
// next step is like this one. Greedy, largest first into the lowest gap, over several orders; the pure answer to what the
// pool, which has to answer block by block, cannot know.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"

namespace spillway {

// There over the positions [begin, end), or, with end <= begin, from `begin` over the step's end to the next one's `end`.
struct Presence {
  Bytes size;
  std::uint32_t begin = 0, end = 0;
};

struct Placement {
  std::vector<Bytes> offsets;  // by presence
  Bytes top;                   // the highest end
};

// Stops looking for a lower top once it is at most `enough`. Sizes are multiples of whatever offsets shall be multiples of.
[[nodiscard]] Placement place(std::span<const Presence> all, Bytes enough);

// The most that is there at once: no top is lower.
[[nodiscard]] Bytes most_at_once(std::span<const Presence> all);

}  // namespace spillway
