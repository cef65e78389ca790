// A half-open stretch of bytes [begin, end) of some arena, as offsets from its start.
#pragma once

#include "base/units.h"

namespace spillway {

struct Range {
  Bytes begin;
  Bytes end;

  [[nodiscard]] constexpr Bytes length() const { return end - begin; }
  [[nodiscard]] constexpr bool empty() const { return end <= begin; }
  [[nodiscard]] constexpr bool contains(Range other) const { return begin <= other.begin && other.end <= end; }
  [[nodiscard]] constexpr bool overlaps(Range other) const { return begin < other.end && other.begin < end; }
  friend constexpr auto operator<=>(const Range&, const Range&) = default;
};

}  // namespace spillway
