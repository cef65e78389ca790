// Everything a Pool keeps: the arena, the clocks, the slabs, and the sums over them.
//
// The parts know their own laws (space.h, stream_clocks.h, slabs.h); here requests are served from them in the order
// that pool.h promises.
#pragma once

#include <optional>
#include <vector>

#include "pool/pool.h"
#include "pool/search.h"
#include "pool/slabs.h"
#include "pool/space.h"
#include "pool/stream_clocks.h"

namespace spillway {

struct Pool::Books {
  explicit Books(const PoolOptions& given);

  // A piece of the arena that is now used, for a grant or for a slab.
  struct Taken {
    ChunkId chunk;
    Range commit;
  };

  [[nodiscard]] std::optional<Grant> try_allocate(Bytes size, StreamId on, bool anywhere);
  void abandon(const Grant& grant);
  void free(ChunkId chunk, std::span<const Tick> last_uses);
  void set_limit(Bytes bytes);
  [[nodiscard]] std::vector<Range> trim();
  [[nodiscard]] std::optional<std::vector<Range>> lacking(Range range);
  [[nodiscard]] std::optional<Grant> try_allocate_at(Range range, StreamId on);
  void apply_remap(const Remap& remap);
  [[nodiscard]] std::optional<Range> find_growth() const;
  void decommit(std::span<const Range> ranges);  // ascending
  [[nodiscard]] PoolStats stats() const;

  // The stages of a request, each empty when it has nothing.
  [[nodiscard]] std::optional<Taken> take_ready(Where where, Bytes size, StreamId on);
  [[nodiscard]] std::optional<Taken> take_fresh(Where where, Bytes size, StreamId usable_by);
  [[nodiscard]] std::optional<Taken> take_waiting(Where where, Bytes size);
  [[nodiscard]] std::optional<Taken> take_chunk(Where where, Bytes size, StreamId on);
  [[nodiscard]] std::optional<Taken> take_slot(Bytes slot, StreamId on);
  [[nodiscard]] std::optional<Taken> slot_of_new_slab(std::optional<Taken> memory, Bytes slot);

  [[nodiscard]] Grant grant(const Taken& taken, StreamId on);
  void name_waits(std::span<const Tick> uses, StreamId on);
  void note_use(Chunk& chunk, Tick last_use);
  void note_uses(Chunk& chunk, std::span<const Tick> last_uses);
  void release(ChunkId id, const Chunk& chunk);

  // The chunk behind a handle that the caller holds.
  [[nodiscard]] Chunk& granted(ChunkId chunk);
  [[nodiscard]] Bytes room() const { return limit > reserved ? limit - reserved : Bytes{}; }

  void verify() const;

  PoolOptions options;
  Bytes limit, reserved, live, peak_live, peak_reserved;
  Bytes highest_limit;
  StreamClocks clocks;
  Space space{options, clocks};
  Slabs slabs{space};
  std::array<std::int64_t, kGrantClassCount> grants{};
  std::int64_t waits_owed = 0, refusals = 0, live_chunks = 0;

  std::vector<Tick> waits;    // of the latest grant
  std::vector<Tick> reduced;  // scratch of note_uses

  // What `abandon` needs: set by a grant, gone after any other change.
  struct Latest {
    ChunkId chunk;
    Bytes peak_live, peak_reserved;
  };
  Latest latest;
};

}  // namespace spillway
