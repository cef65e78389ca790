// The budget below which nobody can go without splitting ops, and the op that holds it up.
//
//   floor == max over ops of (what cannot leave while the op runs + the rest of what the op needs at once)
//
// What an op needs at once: the storages it touches and its transient. An op over lists that may run in pieces counts
// with its largest piece.
#pragma once

#include "liveness/liveness.h"

namespace spillway {

struct FloorOptions {
  Bytes smallest{};  // storages below this size never leave
};

struct Floor {
  Bytes bytes;
  OpPlace op = kNoPlace;     // the first that needs that much
  Bytes working_set, stuck;  // their sum is `bytes`: what the op needs, and what else cannot leave
};

[[nodiscard]] Floor find_floor(const Liveness& liveness, FloorOptions options = {});

// Workspaces of libraries are no storage the engine could take away.
[[nodiscard]] bool can_leave(const LiveStorage& storage, FloorOptions options);

}  // namespace spillway
