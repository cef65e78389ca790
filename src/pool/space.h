// The arena as a whole: chunks by address, the indices over the free ones, and the laws by which they split and merge.
//
// Every free chunk stands in `free_index()` on the shelf of its last uses. Maximal runs of two and more free neighbours
// (the seams of Note [When free neighbours merge]) stand in `runs()` under their lowest chunk, with the run's length.
// Holes begin and end at multiples of the granule. The open and the placed part (PoolOptions::placed_from) have indices of
// their own, and a wall between them.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "pool/chunk.h"
#include "pool/free_index.h"
#include "pool/pool.h"
#include "pool/stream_clocks.h"
#include "pool/sync_set.h"

namespace spillway {

// Shelves of a FreeIndex, by last uses: none, several streams, or one stream and its tick.
inline constexpr std::uint32_t kUnusedShelf = 0;
inline constexpr std::uint32_t kMixedShelf = 1;
constexpr std::uint32_t shelf_of(StreamId stream) { return 2 + stream.index; }
constexpr std::uint32_t shelf_of(const SyncSet& uses) {
  if (uses.single()) return shelf_of(uses.only.stream);
  return uses.empty() ? kUnusedShelf : kMixedShelf;
}

enum class Where : std::uint8_t { open, placed };

class Space {
 public:
  // The clocks must outlive the space.
  Space(const PoolOptions& options, const StreamClocks& clocks);

  [[nodiscard]] ChunkTable& chunks() { return chunks_; }
  [[nodiscard]] const ChunkTable& chunks() const { return chunks_; }
  [[nodiscard]] SyncStore& syncs() { return syncs_; }
  [[nodiscard]] const StreamClocks& clocks() const { return clocks_; }
  [[nodiscard]] const FreeIndex& free_index(Where where) const { return free_[static_cast<std::size_t>(where)]; }
  [[nodiscard]] const FreeIndex& runs(Where where) const { return runs_[static_cast<std::size_t>(where)]; }
  [[nodiscard]] Where where(ChunkId id) const { return chunks_[id].begin >= placed_from_ ? Where::placed : Where::open; }
  [[nodiscard]] Bytes placed_from() const { return placed_from_; }
  [[nodiscard]] const std::vector<ChunkId>& holes() const { return holes_; }
  [[nodiscard]] Bytes address_space() const { return address_space_; }
  [[nodiscard]] Bytes granule() const { return granule_; }
  [[nodiscard]] Bytes alignment() const { return alignment_; }

  [[nodiscard]] bool is_free(ChunkId id) const { return chunks_.is(id, ChunkState::free); }
  [[nodiscard]] std::span<const Tick> uses(ChunkId id) const { return syncs_.uses(chunks_[id].uses); }
  [[nodiscard]] bool complete(ChunkId id) const;

  // The `size` bytes from the beginning of a free chunk on, which it and the free chunks after it must have, become one
  // used chunk with the last uses of all of them. What remains of the last one stays free.
  [[nodiscard]] ChunkId take(ChunkId first, Bytes size);
  // Cuts a free chunk at an address inside it; returns the upper part. The law of merging is the caller's to restore.
  [[nodiscard]] ChunkId cut(ChunkId id, Bytes at);
  // A used chunk or a slab becomes free, with the last uses it has, and merges by the law. Returns where it is now.
  ChunkId release(ChunkId id);
  // Merges a free chunk with its neighbours where the law says so.
  void settle(ChunkId id);

  // Granules of a hole become a free chunk of their own with these last uses, not merged yet.
  [[nodiscard]] ChunkId commit(ChunkId hole, Range range, std::span<const Tick> uses = {});
  // Free granules become a hole. `from`: a linked chunk that begins at or below the range. Returns the hole.
  ChunkId decommit(ChunkId from, Range range);

  void verify() const;

 private:
  [[nodiscard]] FreeIndex& index_of(ChunkId id) { return free_[static_cast<std::size_t>(where(id))]; }
  [[nodiscard]] FreeIndex& runs_of(ChunkId id) { return runs_[static_cast<std::size_t>(where(id))]; }
  void insert(ChunkId id);
  void erase(ChunkId id) { index_of(id).erase(id.index); }
  void build_wall();
  [[nodiscard]] ChunkId split(ChunkId id, Bytes size);
  void absorb_next(ChunkId id);
  [[nodiscard]] ChunkId absorb_into_prev(ChunkId id);
  void join(ChunkId lower);
  [[nodiscard]] ChunkId decommit_within(ChunkId id, Range range);
  [[nodiscard]] bool merge_at_once(ChunkId a, ChunkId b) const;
  [[nodiscard]] ChunkId merge_around(ChunkId id);
  [[nodiscard]] ChunkId shorten_run(ChunkId id);

  [[nodiscard]] ChunkId run_head(ChunkId member) const;
  void note_run(ChunkId member);
  void forget_run(ChunkId member);
  // The runs on both sides of a chunk that is itself not free.
  void note_runs_beside(ChunkId id);
  void forget_runs_beside(ChunkId id);

  [[nodiscard]] ChunkId add_hole(ChunkId id);
  void drop_hole(ChunkId id);

  void verify_chunk(ChunkId id) const;
  void verify_uses(const SyncSet& set) const;
  void verify_run(ChunkId head, std::int64_t& runs) const;

  const StreamClocks& clocks_;
  Bytes address_space_, granule_, alignment_, placed_from_;
  ChunkTable chunks_;
  SyncStore syncs_;
  std::array<FreeIndex, 2> free_, runs_;  // by Where
  std::vector<ChunkId> holes_;
};

}  // namespace spillway
