// Live bytes over the ops of a step, were everything kept on the device from birth to death; their peak, and who is
// there at it.
#pragma once

#include <vector>

#include "liveness/liveness.h"

namespace spillway {

struct LiveCurve {
  std::vector<Bytes> live;                // by op: the storages that are there while it runs
  std::vector<Bytes> during;              // by op: the most while it runs, its transient included; never below `live`
  Bytes peak_live, peak;                  // largest of each; nothing for a step without ops
  OpPlace peak_live_op = 0, peak_op = 0;  // the first op that reaches it
};

[[nodiscard]] LiveCurve live_curve(const Liveness& liveness);

// Largest first, ties by place.
[[nodiscard]] std::vector<StoragePlace> resident_at(const Liveness& liveness, OpPlace op);

}  // namespace spillway
