// Sums over traces that may be anybody's: they stop at the end of the scale instead of overflowing.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace spillway {

template <class Kind>
void saturating_add(Quantity<Kind>& sum, Quantity<Kind> value) {
  if (__builtin_add_overflow(sum.count, value.count, &sum.count)) sum.count = value.count < 0 ? INT64_MIN : INT64_MAX;
}

template <class Kind>
[[nodiscard]] Quantity<Kind> saturating_minus(Quantity<Kind> a, Quantity<Kind> b) {
  if (__builtin_sub_overflow(a.count, b.count, &a.count)) a.count = b.count < 0 ? INT64_MAX : INT64_MIN;
  return a;
}

}  // namespace spillway
