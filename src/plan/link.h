// Whether copies find their time on one direction of the link: each must run after it may start and before it is needed.
//
// Copies may be cut into pieces here, so what fits is what fits into every window of time:
//
//   for all windows: time of the copies that must run inside it <= length of the window
#pragma once

#include <vector>

#include "base/units.h"

namespace spillway {

class Link {
 public:
  // Time [0, end) in `slots` equal parts; windows begin and end at their borders.
  Link(Nanos end, int slots);

  // Takes the copy when it fits beside those taken before.
  [[nodiscard]] bool try_take(Nanos from, Nanos until, Nanos takes);

 private:
  [[nodiscard]] int slot_after(Nanos time) const;   // the first border not before it
  [[nodiscard]] int slot_before(Nanos time) const;  // the last border not after it

  Nanos end_;
  int slots_;
  std::vector<std::int64_t> inside_;  // [begin * (slots + 1) + end]: time of the copies whose own window lies in [begin, end)
};

}  // namespace spillway
