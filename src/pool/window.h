// The cheapest window: which neighbouring used chunks must go to make a hole of a size.
//
// A window is a stretch of chunks that are free or may go, and at most one hole. Pure: a function of the chunks, their
// costs, and how far committed memory may grow.
#pragma once

#include <functional>
#include <optional>

#include "pool/pool.h"
#include "pool/slabs.h"
#include "pool/space.h"

namespace spillway {

// As Pool::find_window; `room`: how far committed bytes may still grow.
[[nodiscard]] std::optional<Window> find_window(const Space& space, const Slabs& slabs, Bytes size, Bytes room,
                                                const std::function<double(ChunkId)>& cost);

}  // namespace spillway
