// Chunks: pieces of the arena, doubly linked by address, and the slots that slabs are cut into.
//
// Chunks are nodes of a table and are named by their index in it; names are reused. The linked ones (used, free, hole,
// slab) tile the arena without a gap:
//
//   end(c) == begin(next(c)),   begin(first()) == 0,   end(last) == address space
//
// Those of the placed part (PoolOptions::placed_from) are found by address as well; a wall before it keeps it apart.
// Slots lie inside a slab and are not linked. A used chunk keeps the last uses it was granted with: they stand again if
// it is given back without having been accessed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/range.h"
#include "pool/pool.h"
#include "pool/sync_set.h"

namespace spillway {

enum class ChunkState : std::uint8_t {
  vacant,  // a node of the table that is no chunk
  used,
  free,
  hole,  // address space without memory
  wall,  // a granule nobody gets
  slab,
  used_slot,
  free_slot,
};

struct alignas(64) Chunk {
  Bytes begin, size;
  SyncSet uses;
  ChunkId prev, next;
  std::uint32_t slab = UINT32_MAX;  // of a slab or slot: the number of the slab
  ChunkState state = ChunkState::vacant;
  bool in_run = false;  // free, and a neighbour is too: spares a look at the neighbours

  [[nodiscard]] Bytes end() const { return begin + size; }
  [[nodiscard]] Range range() const { return {begin, end()}; }
};

class ChunkTable {
 public:
  // `placed_from`: chunks from there on are found by `at`.
  ChunkTable(Bytes address_space, Bytes placed_from) : placed_from_(placed_from) {
    nodes_.push_back({.size = address_space, .state = ChunkState::hole});
  }

  [[nodiscard]] Chunk& operator[](ChunkId id) { return nodes_[id.index]; }
  [[nodiscard]] const Chunk& operator[](ChunkId id) const { return nodes_[id.index]; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

  // The lowest linked chunk: splits and joins keep the name of the lower part, so it never changes.
  [[nodiscard]] static ChunkId first() { return {0}; }
  [[nodiscard]] bool is(ChunkId id, ChunkState state) const { return id.valid() && nodes_[id.index].state == state; }

  // The linked chunk of the placed part that the address is in.
  [[nodiscard]] ChunkId at(Bytes address) const;

  // May move the table: references to chunks do not survive it.
  [[nodiscard]] ChunkId create();
  void destroy(ChunkId id);

  // Cuts a linked chunk after `size` bytes; returns the upper part, which has no last uses yet.
  ChunkId split(ChunkId id, Bytes size);
  // Joins a linked chunk with the one after it, whose name and last uses are gone then.
  void absorb_next(ChunkId id);

 private:
  [[nodiscard]] std::vector<ChunkId>::const_iterator above(Bytes address) const {
    return std::ranges::upper_bound(placed_, address, {}, [this](ChunkId id) { return nodes_[id.index].begin; });
  }

  std::vector<Chunk> nodes_;
  Bytes placed_from_;
  std::vector<ChunkId> placed_;  // by address
  ChunkId vacant_;  // a list through `next`
};

inline ChunkId ChunkTable::create() {
  if (!vacant_.valid()) {
    nodes_.emplace_back();
    return {static_cast<std::uint32_t>(nodes_.size() - 1)};
  }
  const ChunkId id = vacant_;
  vacant_ = nodes_[id.index].next;
  nodes_[id.index] = Chunk{};
  return id;
}

inline void ChunkTable::destroy(ChunkId id) {
  nodes_[id.index].state = ChunkState::vacant;
  nodes_[id.index].next = vacant_;
  vacant_ = id;
}

inline ChunkId ChunkTable::at(Bytes address) const {
  SPILLWAY_ENSURE(address >= placed_from_, "looked up in the placed part");
  return *(above(address) - 1);
}

inline ChunkId ChunkTable::split(ChunkId id, Bytes size) {
  const ChunkId upper_id = create();
  Chunk& lower = nodes_[id.index];
  Chunk& upper = nodes_[upper_id.index];
  upper.begin = lower.begin + size;
  upper.size = lower.size - size;
  upper.state = lower.state;
  upper.prev = id;
  upper.next = lower.next;
  if (lower.next.valid()) nodes_[lower.next.index].prev = upper_id;
  lower.size = size;
  lower.next = upper_id;
  if (upper.begin >= placed_from_) placed_.insert(above(upper.begin), upper_id);
  return upper_id;
}

inline void ChunkTable::absorb_next(ChunkId id) {
  Chunk& lower = nodes_[id.index];
  const ChunkId upper_id = lower.next;
  const Chunk& upper = nodes_[upper_id.index];
  if (upper.begin >= placed_from_) placed_.erase(above(upper.begin) - 1);
  lower.size += upper.size;
  lower.next = upper.next;
  if (upper.next.valid()) nodes_[upper.next.index].prev = id;
  destroy(upper_id);
}

}  // namespace spillway
