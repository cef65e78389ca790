#include "pool/books.h"

#include <algorithm>
#include <bit>

namespace spillway {

namespace {

PoolOptions checked(const PoolOptions& options) {
  SPILLWAY_ENSURE(
      options.alignment > Bytes{} && std::has_single_bit(static_cast<std::uint64_t>(options.alignment.count)),
      "the alignment is a power of two");
  SPILLWAY_ENSURE(options.granule > Bytes{} && options.granule % options.alignment == Bytes{},
                  "the granule is a multiple of the alignment");
  SPILLWAY_ENSURE(options.address_space >= options.granule, "the arena has a granule at least");
  SPILLWAY_ENSURE(options.limit >= Bytes{} && options.slab >= Bytes{}, "sizes are not negative");
  return options;
}

}  // namespace

Pool::Books::Books(const PoolOptions& given) : options(checked(given)) { set_limit(options.limit); }

void Pool::Books::set_limit(Bytes bytes) {
  SPILLWAY_ENSURE(bytes >= Bytes{}, "a limit is not negative");
  limit = bytes;
  highest_limit = std::max(highest_limit, limit);
  slabs.set_largest(std::min(options.slab, limit / 64));
}

std::optional<Grant> Pool::Books::try_allocate(Bytes size, StreamId on, bool anywhere) {
  SPILLWAY_ENSURE(size > Bytes{}, "a request has a size");
  clocks.hear(on);
  latest = {.chunk = {}, .peak_live = peak_live, .peak_reserved = peak_reserved};
  std::optional<Taken> taken;
  if (size <= options.address_space) {
    const Bytes slot = slabs.slot_for(size);
    if (slot > Bytes{}) taken = take_slot(slot, on);
    if (!taken) taken = take_chunk(Where::open, round_up(size, options.alignment), on);
    if (!taken && anywhere && options.placed_from > Bytes{}) taken = take_chunk(Where::placed, round_up(size, options.alignment), on);
  }
  if (!taken) {
    ++refusals;
    return std::nullopt;
  }
  return grant(*taken, on);
}

std::optional<Pool::Books::Taken> Pool::Books::take_chunk(Where where, Bytes size, StreamId on) {
  auto taken = take_ready(where, size, on);
  if (!taken && slabs.dissolve_empty()) taken = take_ready(where, size, on);
  if (!taken && !options.dear_memory) taken = take_fresh(where, size, on);
  if (!taken) taken = take_waiting(where, size);
  if (!taken) taken = take_fresh(where, size, StreamId{});
  return taken;
}

std::optional<Pool::Books::Taken> Pool::Books::take_ready(Where where, Bytes size, StreamId on) {
  ChunkId first = find_ready(space, space.free_index(where), {size, options.address_space}, on);
  if (!first.valid()) first = find_ready_run(space, where, size, on);
  if (!first.valid()) return std::nullopt;
  return Taken{.chunk = space.take(first, size)};
}

std::optional<Pool::Books::Taken> Pool::Books::take_waiting(Where where, Bytes size) {
  ChunkId first = find_any(space.free_index(where), {size, options.address_space});
  if (!first.valid()) first = find_any_run(space, where, size);
  if (!first.valid()) return std::nullopt;
  return Taken{.chunk = space.take(first, size)};
}

std::optional<Pool::Books::Taken> Pool::Books::take_fresh(Where where, Bytes size, StreamId usable_by) {
  const std::vector<Growth> growths = find_growths(space, where, size, room(), usable_by);
  if (growths.empty()) return std::nullopt;
  const Growth& cheapest = growths.front();
  ChunkId first = space.commit(cheapest.hole, cheapest.commit);
  while (space.chunks()[first].begin > cheapest.begin) first = space.chunks()[first].prev;
  reserved += cheapest.commit.length();
  peak_reserved = std::max(peak_reserved, reserved);

  const Taken taken{.chunk = space.take(first, size), .commit = cheapest.commit};
  const ChunkId rest = space.chunks()[taken.chunk].next;
  if (space.is_free(rest) && space.chunks()[rest].begin < taken.commit.end) space.settle(rest);
  return taken;
}

std::optional<std::vector<Range>> Pool::Books::lacking(Range range) {
  SPILLWAY_ENSURE(range.begin >= space.placed_from() && range.end <= space.address_space(), "a place in the placed part");
  slabs.dissolve_empty();
  const ChunkTable& chunks = space.chunks();
  std::vector<Range> ranges;
  for (ChunkId id = chunks.at(range.begin); id.valid() && chunks[id].begin < range.end; id = chunks[id].next) {
    if (space.is_free(id)) continue;
    if (!chunks.is(id, ChunkState::hole)) return std::nullopt;
    const Bytes end = std::min(chunks[id].end(), round_up(range.end, options.granule));
    ranges.push_back({std::max(chunks[id].begin, round_down(range.begin, options.granule)), end});
  }
  return ranges;
}

std::optional<Grant> Pool::Books::try_allocate_at(Range range, StreamId on) {
  const auto missing = lacking(range);
  if (!missing || !missing->empty()) return std::nullopt;
  clocks.hear(on);
  latest = {.chunk = {}, .peak_live = peak_live, .peak_reserved = peak_reserved};
  ChunkId first = space.chunks().at(range.begin);
  if (space.chunks()[first].begin < range.begin) first = space.cut(first, range.begin);
  return grant({.chunk = space.take(first, range.length()), .commit = {}}, on);
}

// A slot of the size, a slab to cut into such slots, or nothing; first without waits, then with.
std::optional<Pool::Books::Taken> Pool::Books::take_slot(Bytes slot, StreamId on) {
  ChunkId found = find_ready(space, slabs.free_slots(), {slot, slot}, on);
  if (!found.valid()) {
    const Bytes length = slabs.next_length(slot);
    if (auto taken = slot_of_new_slab(take_ready(Where::open, length, on), slot)) return taken;
    if (auto taken = slot_of_new_slab(take_fresh(Where::open, length, on), slot)) return taken;
    found = find_any(slabs.free_slots(), {slot, slot});
    if (!found.valid()) return slot_of_new_slab(take_waiting(Where::open, length), slot);
  }
  slabs.take(found);
  return Taken{.chunk = found};
}

std::optional<Pool::Books::Taken> Pool::Books::slot_of_new_slab(std::optional<Taken> memory, Bytes slot) {
  if (!memory) return std::nullopt;
  memory->chunk = slabs.open(memory->chunk, slot);
  slabs.take(memory->chunk);
  return memory;
}

Grant Pool::Books::grant(const Taken& taken, StreamId on) {
  const Chunk& chunk = space.chunks()[taken.chunk];
  const auto uses = space.uses(taken.chunk);
  GrantClass granted = classify(uses, on, clocks);
  waits.clear();
  if (granted == GrantClass::orderable) {
    name_waits(uses, on);
  } else if (!taken.commit.empty()) {
    granted = GrantClass::fresh;
  }
  ++grants[static_cast<std::size_t>(granted)];
  waits_owed += std::ssize(waits);
  live += chunk.size;
  peak_live = std::max(peak_live, live);
  ++live_chunks;
  latest.chunk = taken.chunk;
  return {.chunk = taken.chunk, .range = chunk.range(), .granted = granted, .waits = waits, .commit = taken.commit};
}

void Pool::Books::name_waits(std::span<const Tick> uses, StreamId on) {
  for (const Tick use : uses) {
    if (!clocks.ordered(on, use)) waits.push_back(use);
  }
  clocks.drop_implied(waits);
}

void Pool::Books::abandon(const Grant& grant) {
  SPILLWAY_ENSURE(grant.chunk.valid() && grant.chunk == latest.chunk,
                  "only the latest grant can be abandoned, and at once");
  --grants[static_cast<std::size_t>(grant.granted)];
  waits_owed -= std::ssize(waits);
  peak_live = latest.peak_live;
  peak_reserved = latest.peak_reserved;
  release(grant.chunk, granted(grant.chunk));
  if (grant.commit.empty()) return;
  slabs.dissolve_empty();
  decommit({&grant.commit, 1});
}

void Pool::Books::free(ChunkId id, std::span<const Tick> last_uses) {
  Chunk& chunk = granted(id);
  if (last_uses.size() == 1) {
    note_use(chunk, last_uses.front());
  } else if (!last_uses.empty()) {
    note_uses(chunk, last_uses);
  }
  release(id, chunk);
}

void Pool::Books::note_use(Chunk& chunk, Tick last_use) {
  clocks.hear(last_use);
  if (clocks.done(last_use)) {
    space.syncs().clear(chunk.uses);
  } else {
    space.syncs().assign(chunk.uses, last_use);
  }
}

// Note [Last uses] in pool.h: what is done, or implied by another use, need not be remembered.
void Pool::Books::note_uses(Chunk& chunk, std::span<const Tick> last_uses) {
  reduced.clear();
  for (const Tick use : last_uses) {
    SPILLWAY_ENSURE(std::ranges::count(last_uses, use.stream, &Tick::stream) == 1, "at most one last use per stream");
    clocks.hear(use);
    if (!clocks.done(use)) reduced.push_back(use);
  }
  clocks.drop_implied(reduced);
  space.syncs().assign(chunk.uses, reduced);
}

void Pool::Books::release(ChunkId id, const Chunk& chunk) {
  live -= chunk.size;
  --live_chunks;
  latest = {};
  if (chunk.state == ChunkState::used) {
    space.release(id);
  } else {
    slabs.release(id);
  }
}

PoolStats Pool::Books::stats() const {
  PoolStats result{.live = live, .peak_live = peak_live, .reserved = reserved, .peak_reserved = peak_reserved};
  result.grants = grants;
  result.waits_owed = waits_owed;
  result.refusals = refusals;
  result.live_chunks = live_chunks;
  Bytes stretch;
  for (ChunkId id = ChunkTable::first(); id.valid(); id = space.chunks()[id].next) {
    const Chunk& chunk = space.chunks()[id];
    const bool empty_slab = chunk.state == ChunkState::slab && slabs.empty(id);
    stretch = space.is_free(id) || empty_slab ? stretch + chunk.size : Bytes{};
    result.largest_free = std::max(result.largest_free, stretch);
    result.free_chunks += space.is_free(id) ? 1 : 0;
  }
  return result;
}

Chunk& Pool::Books::granted(ChunkId id) {
  SPILLWAY_ENSURE(id.index < space.chunks().size(), "a chunk that was granted");
  Chunk& chunk = space.chunks()[id];
  SPILLWAY_ENSURE(chunk.state == ChunkState::used || chunk.state == ChunkState::used_slot,
                  "a chunk that was granted and not freed since");
  return chunk;
}

}  // namespace spillway
