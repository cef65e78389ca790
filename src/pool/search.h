// Which free piece serves a request: look-ups that change nothing.
//
// A search sees one index (the free chunks, or the free slots of slabs) through the eyes of one stream. "Ready" means
// that the stream may use the piece without a wait: class same_stream, complete or ordered.
#pragma once

#include <optional>
#include <vector>

#include "pool/free_index.h"
#include "pool/pool.h"
#include "pool/space.h"

namespace spillway {

// The lowest class that applies to a free piece with these last uses.
[[nodiscard]] GrantClass classify_mixed(std::span<const Tick> uses, StreamId on, const StreamClocks& clocks);
[[nodiscard]] inline GrantClass classify(std::span<const Tick> uses, StreamId on, const StreamClocks& clocks) {
  if (uses.empty()) return GrantClass::complete;
  if (uses.size() == 1 && uses.front().stream == on) return GrantClass::same_stream;
  return classify_mixed(uses, on, clocks);
}

// A piece of at least `smallest` and at most `largest` bytes.
struct Fit {
  Bytes smallest, largest;
};

// A single piece of the best class there is, best fit within it.
[[nodiscard]] ChunkId find_ready(const Space& space, const FreeIndex& index, Fit fit, StreamId on);
// Best fit regardless of waits.
[[nodiscard]] ChunkId find_any(const FreeIndex& index, Fit fit);

// The first chunk of a stretch of free neighbours that together have `size` bytes, none of which needs a wait: from the
// shortest run that has one, the shortest stretch in it. Looks at no more than kRunsLookedAt runs.
inline constexpr int kRunsLookedAt = 32;
[[nodiscard]] ChunkId find_ready_run(const Space& space, Where where, Bytes size, StreamId on);
// The same regardless of waits.
[[nodiscard]] ChunkId find_any_run(const Space& space, Where where, Bytes size);

// A way to serve `size` bytes by committing part of a hole, together with the free neighbours that are usable.
struct Growth {
  ChunkId hole;
  Range commit;
  Bytes begin;  // of the stretch; in or below the committed part
};
// All of them, cheapest first: fewest bytes to commit, then lowest address. `on` invalid: every free neighbour is
// usable; otherwise those are that `on` may use without a wait.
[[nodiscard]] std::vector<Growth> find_growths(const Space& space, Where where, Bytes size, Bytes most, StreamId on);

}  // namespace spillway
