#include "pool/space.h"

#include <algorithm>

namespace spillway {

namespace {

constexpr std::uint32_t kRunShelf = 0;  // the runs have one shelf

Bytes placed_part(const PoolOptions& options) {
  return options.placed_from > Bytes{} ? round_up(options.placed_from, options.granule) : Bytes{INT64_MAX};
}

}  // namespace

Space::Space(const PoolOptions& options, const StreamClocks& clocks)
    : clocks_(clocks),
      address_space_(round_down(options.address_space, options.granule)),
      granule_(options.granule),
      alignment_(options.alignment),
      placed_from_(placed_part(options)),
      chunks_(address_space_, placed_from_),
      free_{FreeIndex(options.alignment), FreeIndex(options.alignment)},
      runs_{FreeIndex(options.alignment), FreeIndex(options.alignment)},
      holes_{ChunkTable::first()} {
  if (placed_from_ < address_space_) build_wall();
}

void Space::build_wall() {
  SPILLWAY_ENSURE(placed_from_ >= granule_ * 2, "there is room below the placed part");
  const ChunkId wall = chunks_.split(ChunkTable::first(), placed_from_ - granule_);
  holes_.push_back(chunks_.split(wall, granule_));
  chunks_[wall].state = ChunkState::wall;
}

ChunkId Space::cut(ChunkId id, Bytes at) {
  forget_run(id);
  erase(id);
  const ChunkId upper = split(id, at - chunks_[id].begin);
  insert(id);
  insert(upper);
  note_run(id);
  return upper;
}

bool Space::complete(ChunkId id) const {
  return std::ranges::all_of(uses(id), [&](Tick use) { return clocks_.done(use); });
}

ChunkId Space::take(ChunkId first, Bytes size) {
  const bool in_run = chunks_[first].in_run;
  if (in_run) forget_run(first);
  erase(first);
  while (chunks_[first].size < size) {  // what remains of the last one keeps its own last uses
    const ChunkId next = chunks_[first].next;
    const Bytes missing = size - chunks_[first].size;
    SPILLWAY_ENSURE(is_free(next), "a run of free chunks is as long as it was said to be");
    erase(next);
    if (chunks_[next].size > missing) insert(split(next, missing));
    join(first);
  }
  if (chunks_[first].size > size) insert(split(first, size));
  chunks_[first].state = ChunkState::used;
  if (in_run) note_runs_beside(first);
  return first;
}

ChunkId Space::release(ChunkId id) {
  const ChunkId prev = chunks_[id].prev, next = chunks_[id].next;
  const bool alone = !is_free(prev) && !is_free(next);
  if (!alone) forget_runs_beside(id);
  chunks_[id].state = ChunkState::free;
  if (!alone) id = shorten_run(merge_around(id));
  insert(id);
  if (!alone) note_run(id);
  return id;
}

void Space::settle(ChunkId id) {
  forget_run(id);
  erase(id);
  chunks_[id].state = ChunkState::used;
  release(id);
}

ChunkId Space::commit(ChunkId hole, Range range, std::span<const Tick> uses) {
  SPILLWAY_ENSURE(chunks_.is(hole, ChunkState::hole) && chunks_[hole].range().contains(range),
                  "committed where a hole is");
  drop_hole(hole);
  if (chunks_[hole].begin < range.begin) {
    const ChunkId upper = chunks_.split(hole, range.begin - chunks_[hole].begin);
    holes_.push_back(hole);
    hole = upper;
  }
  if (range.end < chunks_[hole].end()) holes_.push_back(chunks_.split(hole, range.length()));
  forget_runs_beside(hole);
  chunks_[hole].state = ChunkState::free;
  syncs_.assign(chunks_[hole].uses, uses);
  insert(hole);
  note_run(hole);
  return hole;
}

ChunkId Space::decommit(ChunkId from, Range range) {
  while (from.valid() && chunks_[from].end() <= range.begin) from = chunks_[from].next;
  ChunkId hole;
  for (Bytes begin = range.begin; begin < range.end;) {
    SPILLWAY_ENSURE(is_free(from), "only free memory is decommitted");
    const Bytes end = std::min(range.end, chunks_[from].end());
    const ChunkId next = chunks_[from].next;  // where the range goes on, if it does
    hole = decommit_within(from, {begin, end});
    from = next;
    begin = end;
  }
  return hole;
}

ChunkId Space::decommit_within(ChunkId id, Range range) {
  forget_run(id);
  erase(id);
  if (chunks_[id].begin < range.begin) {
    const ChunkId upper = split(id, range.begin - chunks_[id].begin);
    insert(id);
    id = upper;
  }
  if (range.end < chunks_[id].end()) insert(split(id, range.length()));
  syncs_.clear(chunks_[id].uses);
  chunks_[id].state = ChunkState::hole;
  note_runs_beside(id);
  return add_hole(id);
}

void Space::insert(ChunkId id) {
  const Chunk& chunk = chunks_[id];
  const std::uint64_t tick = chunk.uses.single() ? chunk.uses.only.value : 0;
  index_of(id).insert(id.index, shelf_of(chunk.uses), {.size = chunk.size, .address = chunk.begin, .tick = tick});
}

// Cuts a chunk that is out of the index. Both parts are free and out of it then, with the same last uses.
ChunkId Space::split(ChunkId id, Bytes size) {
  const ChunkId upper = chunks_.split(id, size);
  chunks_[upper].uses = syncs_.copy(chunks_[id].uses);
  return upper;
}

// Joins two free chunks, the upper one of which is in the index and leaves it, while the lower one is not.
void Space::absorb_next(ChunkId id) {
  const ChunkId next = chunks_[id].next;
  SPILLWAY_ENSURE(is_free(next), "free chunks are joined with free chunks");
  erase(next);
  join(id);
}

// The same from the other side: the lower one is in the index and leaves it. Returns the joined chunk.
ChunkId Space::absorb_into_prev(ChunkId id) {
  const ChunkId prev = chunks_[id].prev;
  SPILLWAY_ENSURE(is_free(prev), "free chunks are joined with free chunks");
  erase(prev);
  join(prev);
  return prev;
}

void Space::join(ChunkId lower) {
  Chunk& upper = chunks_[chunks_[lower].next];
  syncs_.merge(chunks_[lower].uses, upper.uses);
  syncs_.clear(upper.uses);
  chunks_.absorb_next(lower);
}

bool Space::merge_at_once(ChunkId a, ChunkId b) const {
  if (clocks_.known() > 1 && where(a) == Where::placed) return complete(a) && complete(b);
  return clocks_.known() <= 1 || syncs_.same_users(chunks_[a].uses, chunks_[b].uses) || (complete(a) && complete(b));
}

// A merge may give the chunk the very users of its next neighbour, so each merge asks both sides again.
ChunkId Space::merge_around(ChunkId id) {
  for (;;) {
    const ChunkId prev = chunks_[id].prev, next = chunks_[id].next;
    if (is_free(next) && merge_at_once(id, next)) {
      absorb_next(id);
    } else if (is_free(prev) && merge_at_once(prev, id)) {
      id = absorb_into_prev(id);
    } else {
      return id;
    }
  }
}

// `id` is out of the index. Walks to both ends of its run; where that is too far, merges it with a neighbour.
ChunkId Space::shorten_run(ChunkId id) {
  while (where(id) == Where::open) {
    int members = 1;
    for (ChunkId at = chunks_[id].prev; is_free(at); at = chunks_[at].prev) ++members;
    for (ChunkId at = chunks_[id].next; is_free(at); at = chunks_[at].next) ++members;
    if (members <= kLongestRun) return id;
    if (is_free(chunks_[id].next)) {
      absorb_next(id);
    } else {
      id = absorb_into_prev(id);
    }
    id = merge_around(id);
  }
  return id;
}

ChunkId Space::run_head(ChunkId member) const {
  while (is_free(chunks_[member].prev)) member = chunks_[member].prev;
  return member;
}

void Space::note_run(ChunkId member) {
  const ChunkId head = run_head(member);
  if (!is_free(chunks_[head].next)) return;
  Bytes length;
  for (ChunkId at = head; is_free(at); at = chunks_[at].next) {
    chunks_[at].in_run = true;
    length += chunks_[at].size;
  }
  runs_of(head).insert(head.index, kRunShelf, {.size = length, .address = chunks_[head].begin});
}

void Space::forget_run(ChunkId member) {
  if (!chunks_[member].in_run) return;
  const ChunkId head = run_head(member);
  runs_of(head).erase(head.index);
  for (ChunkId at = head; is_free(at); at = chunks_[at].next) chunks_[at].in_run = false;
}

void Space::note_runs_beside(ChunkId id) {
  const ChunkId prev = chunks_[id].prev, next = chunks_[id].next;
  if (is_free(prev)) note_run(prev);
  if (is_free(next)) note_run(next);
}

void Space::forget_runs_beside(ChunkId id) {
  const ChunkId prev = chunks_[id].prev, next = chunks_[id].next;
  if (is_free(prev)) forget_run(prev);
  if (is_free(next)) forget_run(next);
}

ChunkId Space::add_hole(ChunkId id) {
  if (chunks_.is(chunks_[id].next, ChunkState::hole)) {
    drop_hole(chunks_[id].next);
    chunks_.absorb_next(id);
  }
  const ChunkId prev = chunks_[id].prev;
  if (chunks_.is(prev, ChunkState::hole)) {
    chunks_.absorb_next(prev);
    return prev;
  }
  holes_.push_back(id);
  return id;
}

void Space::drop_hole(ChunkId id) { std::erase(holes_, id); }

}  // namespace spillway
