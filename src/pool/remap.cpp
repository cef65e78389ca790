#include "pool/remap.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "pool/books.h"
#include "pool/search.h"

namespace spillway {

namespace {

// Adds what is still to be waited for in a chunk that lies in the granule.
void add_pending_uses(const Space& space, ChunkId id, StreamId on, FreeGranule& granule) {
  for (const Tick use : space.uses(id)) {
    if (space.clocks().done(use)) continue;
    ++granule.waits;
    if (on.index >= space.clocks().size() || space.clocks().ordered(on, use)) continue;  // not known: any granule is as good
    ++granule.foreign;
    granule.latest = std::max(granule.latest, use.value);
  }
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

// The granules that give up their memory, those first that need no wait, complete ones before others, then lowest address; empty if
// there are too few.
std::optional<std::vector<FreeGranule>> choose_donors(std::vector<FreeGranule> granules, Range keep, std::int64_t count,
                                                      Bytes granule) {
  std::erase_if(granules, [&](const FreeGranule& at) { return keep.overlaps({at.begin, at.begin + granule}); });
  if (std::ssize(granules) < count) return std::nullopt;
  std::ranges::stable_sort(granules, {}, [](const FreeGranule& at) { return std::tuple(at.foreign, at.latest, at.waits); });
  granules.resize(static_cast<std::size_t>(count));
  std::ranges::sort(granules, {}, &FreeGranule::begin);
  return granules;
}

// Of every stream the last, and of those the ones that none of the others implies.
void keep_last(const Space& space, std::vector<Tick>& ticks) {
  std::ranges::sort(ticks, {}, [](Tick tick) { return std::pair(tick.stream.index, ~tick.value); });
  const auto [first, last] = std::ranges::unique(ticks, {}, [](Tick tick) { return tick.stream.index; });
  ticks.erase(first, last);
  space.clocks().drop_implied(ticks);
}

// What is not done in each of the ranges, which are given by address.
std::vector<std::vector<Tick>> uses_within(const Space& space, const std::vector<Range>& ranges) {
  std::vector<std::vector<Tick>> pending(ranges.size());
  std::size_t at = 0;
  for (ChunkId id = ChunkTable::first(); id.valid() && at < ranges.size(); id = space.chunks()[id].next) {
    const Range chunk = space.chunks()[id].range();
    while (at < ranges.size() && ranges[at].end <= chunk.begin) ++at;
    for (std::size_t in = at; in < ranges.size() && ranges[in].overlaps(chunk); ++in) {
      for (const Tick use : space.uses(id)) {
        if (!space.clocks().done(use)) pending[in].push_back(use);
      }
    }
  }
  for (std::vector<Tick>& ticks : pending) keep_last(space, ticks);
  return pending;
}

// What the host must see done before the ranges lose their memory.
void note_uses(const Space& space, Remap& remap) {
  remap.in_use = uses_within(space, remap.decommit);
  for (const std::vector<Tick>& ticks : remap.in_use) remap.wait_for.insert(remap.wait_for.end(), ticks.begin(), ticks.end());
  keep_last(space, remap.wait_for);
}

}  // namespace

std::vector<FreeGranule> free_granules(const Space& space, StreamId on) {
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
    FreeGranule at{.begin = round_down(chunk.begin, granule)};
    if (!granules.empty() && granules.back().begin == at.begin) {
      add_pending_uses(space, id, on, granules.back());
      at.begin += granule;
    }
    add_pending_uses(space, id, on, at);
    for (; at.begin < chunk.end(); at.begin += granule) {
      if (at.begin >= free_from) granules.push_back(at);
    }
  }
  return granules;
}

std::optional<Remap> plan_remap(const Space& space, Bytes size, Bytes room, StreamId on) {
  const Bytes granule = space.granule();
  if (size > space.address_space()) return std::nullopt;
  size = round_up(size, space.alignment());
  if (find_any(space.free_index(Where::open), {size, space.address_space()}).valid()) return Remap{};
  if (find_any_run(space, Where::open, size).valid()) return Remap{};
  const std::vector<FreeGranule> granules = free_granules(space, on);
  for (const Growth& growth : find_growths(space, Where::open, size, space.address_space(), StreamId{})) {
    const Bytes missing = growth.commit.length() - std::min(growth.commit.length(), round_down(room, granule));
    const Range keep{growth.begin, std::max(growth.begin + size, growth.commit.end)};
    const auto donors = choose_donors(granules, keep, missing / granule, granule);
    if (!donors) continue;
    Remap remap{.decommit = joined(*donors, granule), .commit = growth.commit};
    note_uses(space, remap);
    return remap;
  }
  return std::nullopt;
}

std::optional<Remap> find_donors(const Space& space, Bytes size, Range keep, StreamId on) {
  const Bytes granule = space.granule();
  const auto donors = choose_donors(free_granules(space, on), keep, round_up(size, granule) / granule, granule);
  if (!donors) return std::nullopt;
  Remap remap{.decommit = joined(*donors, granule)};
  note_uses(space, remap);
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
  space.settle(space.commit(*hole, remap.commit, remap.uses));
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
