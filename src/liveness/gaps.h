// The stretches in which a living storage is not touched: where it may be elsewhere.
//
//   op        0    1    2    3  |  4=0  5=1
//   weight    rw   .    .    r  |  rw          gaps [1, 3)
//   moment    .    .    rw   .  |  .    .      gaps [3, 6): it wraps around the end, n = 4
//
// The ends of a gap are op places; from `op_count()` on they are those of the next step, which is like this one, and
// there the storage goes on as its `next`.
#pragma once

#include <vector>

#include "liveness/liveness.h"

namespace spillway {

enum class GapEnd : std::uint8_t {
  access,  // the op at `end` needs it
  death,   // nobody does: it is gone before the op at `end`
  unseen,  // the step ends, and the trace does not say who needs it after
};

struct Gap {
  StoragePlace storage = 0;
  OpPlace begin = 0, end = 0;  // idle over the ops [begin, end), never empty
  std::uint32_t version = 0;   // of its bytes: writes in this step before `begin`
  GapEnd ends = GapEnd::access;
  friend bool operator==(const Gap&, const Gap&) = default;
};

// By storage, then by begin. A storage that continues one of the step before has no gap from the step's begin to its
// first access: that is the end of the other's.
[[nodiscard]] std::vector<Gap> find_gaps(const Liveness& liveness);

}  // namespace spillway
