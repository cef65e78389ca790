#include "pool/search.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace spillway {

namespace {

constexpr std::uint32_t kNone = FreeIndex::kNone;

std::uint32_t better(const FreeIndex& index, std::uint32_t a, std::uint32_t b) {
  if (a == kNone || b == kNone) return a == kNone ? b : a;
  const auto rank = [&](std::uint32_t name) { return std::tuple(index[name].size, index[name].address); };
  return rank(b) < rank(a) ? b : a;
}

// The best fit of each ready class among pieces several streams last used. Such pieces are few: they are looked at one
// by one.
using BestOfClass = std::array<std::uint32_t, 3>;
BestOfClass find_mixed(const Space& space, const FreeIndex& index, Fit fit, StreamId on) {
  BestOfClass best{kNone, kNone, kNone};
  index.visit_from(kMixedShelf, fit.smallest, [&](std::uint32_t name) {
    if (index[name].size > fit.largest) return false;
    const auto found = static_cast<std::size_t>(classify(space.uses({name}), on, space.clocks()));
    if (found < best.size() && best[found] == kNone) best[found] = name;
    return best[0] == kNone;
  });
  return best;
}

// Best fit over the shelves of all streams but `on`, up to a tick that depends on the stream.
template <class Frontier>
std::uint32_t find_on_others(const FreeIndex& index, Bytes size, StreamId on, std::uint32_t streams,
                             Frontier frontier) {
  std::uint32_t best = kNone;
  for (StreamId other{0}; other.index < streams; ++other.index) {
    if (other == on || index.count(shelf_of(other)) == 0) continue;
    best = better(index, best, index.find_best(shelf_of(other), size, frontier(other)));
  }
  return best;
}

bool usable(const Space& space, ChunkId id, StreamId on) {
  if (!space.is_free(id)) return false;
  return !on.valid() || classify(space.uses(id), on, space.clocks()) != GrantClass::orderable;
}

// The shortest stretch of ready members of the run that has `size` bytes.
ChunkId find_ready_stretch(const Space& space, ChunkId head, Bytes size, StreamId on) {
  const ChunkTable& chunks = space.chunks();
  ChunkId best;
  Bytes best_length;
  for (ChunkId at = head; space.is_free(at);) {
    const ChunkId first = at;
    Bytes length;
    for (; usable(space, at, on); at = chunks[at].next) length += chunks[at].size;
    if (length >= size && (!best.valid() || length < best_length)) best = first, best_length = length;
    if (space.is_free(at)) at = chunks[at].next;
  }
  return best;
}

// The usable free bytes that end where the hole begins, and those that begin where it ends.
struct Shoulders {
  Bytes below, above;
};
Shoulders shoulders_of(const Space& space, ChunkId hole, StreamId on) {
  const ChunkTable& chunks = space.chunks();
  Shoulders result;
  for (ChunkId at = chunks[hole].prev; usable(space, at, on); at = chunks[at].prev) result.below += chunks[at].size;
  for (ChunkId at = chunks[hole].next; usable(space, at, on); at = chunks[at].next) result.above += chunks[at].size;
  return result;
}

}  // namespace

GrantClass classify_mixed(std::span<const Tick> uses, StreamId on, const StreamClocks& clocks) {
  bool mine = false, mine_done = true, others_done = true, ordered = true;
  for (const Tick use : uses) {
    const bool done = clocks.done(use);
    if (use.stream == on) {
      mine = true;
      mine_done = done;
    } else {
      others_done = others_done && done;
      ordered = ordered && clocks.ordered(on, use);
    }
  }
  if (mine && others_done) return GrantClass::same_stream;
  if (mine_done && others_done) return GrantClass::complete;
  return ordered ? GrantClass::ordered : GrantClass::orderable;
}

ChunkId find_ready(const Space& space, const FreeIndex& index, Fit fit, StreamId on) {
  const StreamClocks& clocks = space.clocks();
  const auto accept = [&](std::uint32_t name) { return name != kNone && index[name].size <= fit.largest; };
  BestOfClass mixed{kNone, kNone, kNone};
  if (index.count(kMixedShelf) > 0) mixed = find_mixed(space, index, fit, on);

  const std::uint32_t own = better(index, mixed[0], index.find_best(shelf_of(on), fit.smallest));
  if (accept(own)) return {own};

  const auto done = [&](StreamId other) { return clocks.done_up_to(other); };
  std::uint32_t complete = better(index, mixed[1], index.find_best(kUnusedShelf, fit.smallest));
  complete = better(index, complete, find_on_others(index, fit.smallest, on, clocks.size(), done));
  if (accept(complete)) return {complete};

  const auto waited = [&](StreamId other) { return clocks.ordered_up_to(on, other); };
  const auto ordered = better(index, mixed[2], find_on_others(index, fit.smallest, on, clocks.size(), waited));
  return accept(ordered) ? ChunkId{ordered} : ChunkId{};
}

ChunkId find_any(const FreeIndex& index, Fit fit) {
  std::uint32_t best = kNone;
  for (std::uint32_t shelf = 0; shelf < index.shelves(); ++shelf) {
    best = better(index, best, index.find_best(shelf, fit.smallest));
  }
  return best != kNone && index[best].size <= fit.largest ? ChunkId{best} : ChunkId{};
}

ChunkId find_ready_run(const Space& space, Where where, Bytes size, StreamId on) {
  ChunkId found;
  int looked_at = 0;
  space.runs(where).visit_from(0, size, [&](std::uint32_t head) {
    found = find_ready_stretch(space, {head}, size, on);
    return !found.valid() && ++looked_at < kRunsLookedAt;
  });
  return found;
}

ChunkId find_any_run(const Space& space, Where where, Bytes size) { return {space.runs(where).find_best(0, size)}; }

std::vector<Growth> find_growths(const Space& space, Where where, Bytes size, Bytes most, StreamId on) {
  std::vector<Growth> growths;
  if (most < space.granule()) return growths;
  for (const ChunkId hole : space.holes()) {
    if (space.where(hole) != where) continue;
    const Range range = space.chunks()[hole].range();
    const Shoulders beside = shoulders_of(space, hole, on);
    if (std::max(beside.below, beside.above) >= size) continue;  // no need to grow here
    const auto missing = [&](Bytes there) { return round_up(size - there, space.granule()); };
    const auto offer = [&](Range commit, Bytes begin) {
      if (commit.length() <= most) growths.push_back({hole, commit, begin});
    };
    const Bytes up = missing(beside.below), down = missing(beside.above);
    if (up <= range.length()) offer({range.begin, range.begin + up}, range.begin - beside.below);
    if (down <= range.length()) offer({range.end - down, range.end}, range.end - down);
    const Bytes whole = range.length();
    if (whole < std::min(up, down) && beside.below + whole + beside.above >= size) {
      offer(range, range.begin - beside.below);
    }
  }
  std::ranges::sort(growths, {}, [](const Growth& growth) { return std::tuple(growth.commit.length(), growth.begin); });
  return growths;
}

}  // namespace spillway
