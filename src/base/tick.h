// A point in a stream's order: everything enqueued on `stream` before it is done once the tick is done.
//
// Ticks of one stream are ordered by `value`, which starts at 1; value 0 lies before any work. Ticks of different
// streams compare only through what the streams waited for.
#pragma once

#include <compare>
#include <cstdint>

#include "base/units.h"

namespace spillway {

struct Tick {
  StreamId stream;
  std::uint64_t value = 0;

  friend constexpr auto operator<=>(const Tick&, const Tick&) = default;
};

}  // namespace spillway
