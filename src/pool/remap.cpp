#include "pool/remap.h"

#include <algorithm>

#include "pool/books.h"
#include "pool/search.h"

namespace spillway {

namespace {

int pending_uses(const Space& space, ChunkId id) {
  const auto pending = [&](Tick use) { return !space.clocks().done(use); };
  return static_cast<int>(std::ranges::count_if(space.uses(id), pending));
}

// The ranges of granules given by address, neighbours joined.
std::vector<Range> joined(const std::vector<FreeGranule>& granules, Bytes granule) {
  std::vector<Range> ranges;
  for (const FreeGranule& at : granules) {
    if (!ranges.empty() && ranges.back().end == at.begin) {
      ranges.back().end += granule;
    } else {
      ranges.push_back({at.begin, at.begin + granule});
    }
  }
  return ranges;
}

// The granules that give up their memory, complete ones first, then lowest address; empty if there are too few.
std::optional<std::vector<FreeGranule>> choose_donors(std::vector<FreeGranule> granules, Range keep, std::int64_t count,
                                                      Bytes granule) {
  std::erase_if(granules, [&](const FreeGranule& at) { return keep.overlaps({at.begin, at.begin + granule}); });
  if (std::ssize(granules) < count) return std::nullopt;
  std::ranges::stable_sort(granules, {}, &FreeGranule::waits);
  granules.resize(static_cast<std::size_t>(count));
  std::ranges::sort(granules, {}, &FreeGranule::begin);
  return granules;
}

// What the host must see done before the ranges lose their memory.
std::vector<Tick> uses_within(const Space& space, const std::vector<Range>& ranges) {
  SyncStore store;
  SyncSet all;
  auto range = ranges.begin();
  for (ChunkId id = ChunkTable::first(); id.valid() && range != ranges.end(); id = space.chunks()[id].next) {
    const Range chunk = space.chunks()[id].range();
    while (range != ranges.end() && range->end <= chunk.begin) ++range;
    if (range == ranges.end() || !range->overlaps(chunk)) continue;
    SyncSet one;
    store.assign(one, space.uses(id));
    store.merge(all, one);
    store.clear(one);
  }
  const auto uses = store.uses(all);
  std::vector<Tick> pending(uses.begin(), uses.end());
  std::erase_if(pending, [&](Tick use) { return space.clocks().done(use); });
  space.clocks().drop_implied(pending);
  return pending;
}

}  // namespace

std::vector<FreeGranule> free_granules(const Space& space) {
  const Bytes granule = space.granule();
  const ChunkTable& chunks = space.chunks();
  std::vector<FreeGranule> granules;
  Bytes free_from;  // the free stretch that holds the chunk at hand began here
  for (ChunkId id = ChunkTable::first(); id.valid(); id = chunks[id].next) {
    const Chunk& chunk = chunks[id];
    if (!space.is_free(id)) {
      while (!granules.empty() && granules.back().begin + granule > chunk.begin) granules.pop_back();
      free_from = chunk.end();
      continue;
    }
    const int waits = pending_uses(space, id);
    Bytes begin = round_down(chunk.begin, granule);
    if (!granules.empty() && granules.back().begin == begin) {
      granules.back().waits += waits;
      begin += granule;
    }
    for (; begin < chunk.end(); begin += granule) {
      if (begin >= free_from) granules.push_back({begin, waits});
    }
  }
  return granules;
}

std::optional<Remap> plan_remap(const Space& space, Bytes size, Bytes room) {
  const Bytes granule = space.granule();
  if (size > space.address_space()) return std::nullopt;
  size = round_up(size, space.alignment());
  if (find_any(space.free_index(Where::open), {size, space.address_space()}).valid()) return Remap{};
  if (find_any_run(space, Where::open, size).valid()) return Remap{};
  const std::vector<FreeGranule> granules = free_granules(space);
  for (const Growth& growth : find_growths(space, Where::open, size, space.address_space(), StreamId{})) {
    const Bytes missing = growth.commit.length() - std::min(growth.commit.length(), round_down(room, granule));
    const Range keep{growth.begin, std::max(growth.begin + size, growth.commit.end)};
    const auto donors = choose_donors(granules, keep, missing / granule, granule);
    if (!donors) continue;
    Remap remap{.decommit = joined(*donors, granule), .commit = growth.commit};
    remap.wait_for = uses_within(space, remap.decommit);
    return remap;
  }
  return std::nullopt;
}

std::optional<Remap> find_donors(const Space& space, Bytes size, Range keep) {
  const Bytes granule = space.granule();
  const auto donors = choose_donors(free_granules(space), keep, round_up(size, granule) / granule, granule);
  if (!donors) return std::nullopt;
  Remap remap{.decommit = joined(*donors, granule)};
  remap.wait_for = uses_within(space, remap.decommit);
  return remap;
}

void Pool::Books::apply_remap(const Remap& remap) {
  latest = {};
  const ChunkTable& chunks = space.chunks();
  const Bytes most = std::max(limit, reserved);
  decommit(remap.decommit);
  if (remap.commit.empty()) return;
  const auto holds = [&](ChunkId hole) { return chunks[hole].range().contains(remap.commit); };
  const auto hole = std::ranges::find_if(space.holes(), holds);
  SPILLWAY_ENSURE(hole != space.holes().end(), "memory is put where there is none");
  SPILLWAY_ENSURE(reserved + remap.commit.length() <= most, "a remap keeps to the limit");
  space.settle(space.commit(*hole, remap.commit));
  reserved += remap.commit.length();
  peak_reserved = std::max(peak_reserved, reserved);
}

std::optional<Range> Pool::Books::find_growth() const {
  if (reserved + options.granule > limit || space.holes().empty()) return std::nullopt;
  const auto begin = [&](ChunkId hole) { return space.chunks()[hole].begin; };
  const Bytes lowest = begin(*std::ranges::min_element(space.holes(), {}, begin));
  if (options.placed_from > Bytes{} && lowest >= options.placed_from) return std::nullopt;
  return Range{lowest, lowest + options.granule};
}

std::vector<Range> Pool::Books::trim() {
  latest = {};
  slabs.dissolve_empty();
  std::vector<FreeGranule> granules = free_granules(space);
  std::erase_if(granules, [](const FreeGranule& at) { return at.waits > 0; });
  std::vector<Range> ranges = joined(granules, options.granule);
  decommit(ranges);
  return ranges;
}

void Pool::Books::decommit(std::span<const Range> ranges) {
  ChunkId from = ChunkTable::first();
  for (const Range& range : ranges) {
    from = space.decommit(from, range);
    reserved -= range.length();
  }
}

}  // namespace spillway
