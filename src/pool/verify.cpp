// The laws of the pool, checked from the ground up. The parts check their own shape; here the sums and the promises of
// pool.h.
#include <algorithm>
#include <utility>

#include "pool/books.h"

namespace spillway {

void Space::verify() const {
  for (const FreeIndex& index : free_) index.verify();
  for (const FreeIndex& index : runs_) index.verify();
  Bytes at;
  ChunkId before;
  std::int64_t free_chunks = 0, holes = 0, runs = 0, lists = 0;
  for (ChunkId id = ChunkTable::first(); id.valid(); id = chunks_[id].next) {
    const Chunk& chunk = chunks_[id];
    SPILLWAY_ENSURE(chunk.begin == at && chunk.size > Bytes{} && chunk.prev == before, "chunks tile the arena");
    verify_chunk(id);
    if (is_free(id) && !is_free(before)) verify_run(id, runs);
    free_chunks += is_free(id) ? 1 : 0;
    holes += chunk.state == ChunkState::hole ? 1 : 0;
    SPILLWAY_ENSURE(chunk.begin < placed_from_ || chunks_.at(chunk.begin) == id, "a placed chunk is found by its address");
    at = chunk.end();
    before = id;
  }
  SPILLWAY_ENSURE(at == address_space_, "chunks tile the arena to its end");
  SPILLWAY_ENSURE(std::ssize(holes_) == holes, "every hole is known");
  std::int64_t indexed = 0;
  for (const FreeIndex& index : free_) {
    for (std::uint32_t shelf = 0; shelf < index.shelves(); ++shelf) indexed += index.count(shelf);
  }
  SPILLWAY_ENSURE(indexed == free_chunks, "exactly the free chunks are in the index");
  SPILLWAY_ENSURE(runs_[0].count(0) + runs_[1].count(0) == runs, "exactly the runs of several free chunks are in the index");
  for (std::uint32_t i = 0; i < chunks_.size(); ++i) {
    const Chunk& chunk = chunks_[{i}];
    const bool has_list = chunk.state != ChunkState::vacant && chunk.uses.list != SyncSet::kNoList;
    lists += has_list ? 1 : 0;
  }
  SPILLWAY_ENSURE(std::cmp_equal(syncs_.lists_in_use(), lists), "every list of last uses belongs to one chunk");
}

void Space::verify_chunk(ChunkId id) const {
  const Chunk& chunk = chunks_[id];
  SPILLWAY_ENSURE(chunk.size % alignment_ == Bytes{}, "chunks are multiples of the alignment");
  const FreeIndex& index = free_index(where(id));
  SPILLWAY_ENSURE(index.contains(id.index) == is_free(id), "a chunk is in the index while it is free");
  SPILLWAY_ENSURE(chunk.in_run == (is_free(id) && (is_free(chunk.prev) || is_free(chunk.next))), "a run is marked");
  if (chunk.state == ChunkState::hole) {
    SPILLWAY_ENSURE(chunk.begin % granule_ == Bytes{} && chunk.size % granule_ == Bytes{}, "holes are whole granules");
    SPILLWAY_ENSURE(chunk.uses.empty(), "nobody used a hole");
    SPILLWAY_ENSURE(!chunks_.is(chunk.next, ChunkState::hole), "neighbouring holes are one");
    SPILLWAY_ENSURE(std::ranges::count(holes_, id) == 1, "a hole is known");
  }
  verify_uses(chunk.uses);
  if (!is_free(id)) return;
  const FreeIndex::Entry& entry = index[id.index];
  SPILLWAY_ENSURE(entry.size == chunk.size && entry.address == chunk.begin, "the index knows where a free chunk is");
  SPILLWAY_ENSURE(index.shelf(id.index) == shelf_of(chunk.uses), "a free chunk stands on the shelf of its last uses");
  SPILLWAY_ENSURE(!chunk.uses.single() || entry.tick == chunk.uses.only.value,
                  "the index knows the tick of a last use");
}

void Space::verify_uses(const SyncSet& set) const {
  const auto uses = syncs_.uses(set);
  SPILLWAY_ENSURE(set.list == SyncSet::kNoList || uses.size() >= 2, "a list of last uses has several");
  for (std::size_t i = 0; i < uses.size(); ++i) {
    SPILLWAY_ENSURE(uses[i].stream.index < clocks_.size(), "last uses are by streams heard of");
    SPILLWAY_ENSURE(i == 0 || uses[i - 1].stream < uses[i].stream, "last uses are by ascending stream, one each");
  }
}

// Walks the run of free chunks from its lowest on.
void Space::verify_run(ChunkId head, std::int64_t& runs) const {
  const FreeIndex& index = runs_[static_cast<std::size_t>(where(head))];
  int members = 1;
  ChunkId last = head;
  for (ChunkId next = chunks_[last].next; is_free(next); next = chunks_[next].next) {
    SPILLWAY_ENSURE(clocks_.known() > 1, "with one stream, free neighbours are one");
    SPILLWAY_ENSURE(where(head) == Where::placed || !syncs_.same_users(chunks_[last].uses, chunks_[next].uses),
                    "free neighbours of the same users are one");
    SPILLWAY_ENSURE(!index.contains(next.index), "a run is known by its lowest chunk only");
    last = next;
    ++members;
  }
  SPILLWAY_ENSURE(where(head) == Where::placed || members <= kLongestRun, "runs of free chunks are short");
  SPILLWAY_ENSURE(index.contains(head.index) == (members > 1), "a run of several free chunks is known");
  if (members == 1) return;
  const FreeIndex::Entry& entry = index[head.index];
  SPILLWAY_ENSURE(entry.address == chunks_[head].begin && entry.size == chunks_[last].end() - entry.address,
                  "a run is known with its length");
  ++runs;
}

void Pool::Books::verify() const {
  clocks.verify();
  space.verify();
  slabs.verify();
  Bytes held, used;
  std::int64_t used_chunks = 0;
  for (std::uint32_t i = 0; i < space.chunks().size(); ++i) {
    const Chunk& chunk = space.chunks()[{i}];
    const bool slot = chunk.state == ChunkState::used_slot || chunk.state == ChunkState::free_slot;
    if (chunk.state == ChunkState::vacant || chunk.state == ChunkState::hole || chunk.state == ChunkState::wall) continue;
    if (!slot) held += chunk.size;
    if (chunk.state != ChunkState::used && chunk.state != ChunkState::used_slot) continue;
    used += chunk.size;
    ++used_chunks;
  }
  SPILLWAY_ENSURE(held == reserved, "reserved is what is not a hole");
  SPILLWAY_ENSURE(reserved % options.granule == Bytes{}, "memory comes in granules");
  SPILLWAY_ENSURE(used == live && used_chunks == live_chunks, "live is what was granted and not freed");
  SPILLWAY_ENSURE(live <= peak_live && reserved <= peak_reserved, "peaks are peaks");
  SPILLWAY_ENSURE(peak_reserved <= highest_limit, "reserved never grows beyond the limit");
}

}  // namespace spillway
