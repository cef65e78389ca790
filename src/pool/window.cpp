#include "pool/window.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace spillway {

namespace {

// The chunks by address with running sums, so that the bytes and the cost of any stretch are one subtraction. The sums
// are long double: a dear chunk somewhere does not blur the price of cheap ones elsewhere.
struct Row {
  std::vector<ChunkId> chunks;
  std::vector<Bytes> begin;        // one more than chunks: the last is the end of the arena
  std::vector<long double> cost;   // of all chunks before
  std::vector<std::size_t> walls;  // what ends a stretch: holes, chunks that must stay, the end; ascending

  [[nodiscard]] Bytes bytes(std::size_t from, std::size_t to) const { return begin[to] - begin[from]; }
};

Row make_row(const Space& space, const Slabs& slabs, const std::function<double(ChunkId)>& cost) {
  const ChunkTable& chunks = space.chunks();
  Row row;
  long double sum = 0;
  for (ChunkId id = ChunkTable::first(); id.valid(); id = chunks[id].next) {
    const bool used = chunks[id].state == ChunkState::used;
    const double price = used ? cost(id) : 0;
    const bool empty_slab = chunks[id].state == ChunkState::slab && slabs.empty(id);
    const bool may_go = used && price >= 0 && std::isfinite(price);
    if (!may_go && !space.is_free(id) && !empty_slab) row.walls.push_back(row.chunks.size());
    row.chunks.push_back(id);
    row.begin.push_back(chunks[id].begin);
    row.cost.push_back(sum);
    if (may_go) sum += price;
  }
  row.walls.push_back(row.chunks.size());
  row.begin.push_back(space.address_space());
  row.cost.push_back(sum);
  return row;
}

// The best window so far: chunks [from, to) of the row, and where in them the hole would be.
struct Best {
  bool found = false;
  std::size_t from = 0, to = 0;
  Range range;
  long double cost = 0;

  void offer(const Row& row, std::size_t low, std::size_t high, Range where) {
    const long double price = row.cost[high] - row.cost[low];
    if (found && (price > cost || (price == cost && where.begin >= range.begin))) return;
    *this = {.found = true, .from = low, .to = high, .range = where, .cost = price};
  }
};

// Shortest windows of chunks [first, last), none of them a wall.
void offer_plain(const Row& row, std::size_t first, std::size_t last, Bytes size, Best& best) {
  std::size_t from = first;
  for (std::size_t to = first; to <= last; ++to) {
    while (from < to && row.bytes(from + 1, to) >= size) ++from;
    if (row.bytes(from, to) >= size) best.offer(row, from, to, {row.begin[from], row.begin[to]});
  }
}

// Windows that use a part of the hole at one of its ends, with chunks of the stretch beside that end.
void offer_beside_hole(const Row& row, std::size_t first, std::size_t hole, std::size_t last, Bytes size, Bytes most,
                       Bytes granule, Best& best) {
  std::size_t from = hole, to = hole + 1;
  while (from > first && row.bytes(from, hole) + most < size) --from;
  while (to < last && row.bytes(hole + 1, to) + most < size) ++to;
  const Bytes below = row.bytes(from, hole), above = row.bytes(hole + 1, to);
  const auto missing = [&](Bytes there) { return round_up(std::max(size - there, Bytes{}), granule); };
  if (below + most >= size) best.offer(row, from, hole, {row.begin[from], row.begin[hole] + missing(below)});
  if (above + most >= size) best.offer(row, hole + 1, to, {row.begin[hole + 1] - missing(above), row.begin[to]});
}

// Windows that use the whole hole and chunks on both sides of it: the more below, the fewer above.
void offer_across_hole(const Row& row, std::size_t first, std::size_t hole, std::size_t last, Bytes size, Best& best) {
  std::size_t from = hole, to = last;
  for (;; --from) {
    while (to > hole + 1 && row.bytes(from, to - 1) >= size) --to;
    if (row.bytes(from, to) >= size) best.offer(row, from, to, {row.begin[from], row.begin[to]});
    if (from == first) return;
  }
}

Window make_window(const Row& row, const Best& best, const Space& space, const std::function<double(ChunkId)>& cost) {
  Window window{.range = best.range};
  for (std::size_t i = best.from; i < best.to; ++i) {
    if (space.chunks()[row.chunks[i]].state != ChunkState::used) continue;
    window.evict.push_back(row.chunks[i]);
    window.cost += cost(row.chunks[i]);
  }
  return window;
}

}  // namespace

std::optional<Window> find_window(const Space& space, const Slabs& slabs, Bytes size, Bytes room,
                                  const std::function<double(ChunkId)>& cost) {
  if (size > space.address_space()) return std::nullopt;
  size = round_up(size, space.alignment());
  room = round_down(room, space.granule());
  const Row row = make_row(space, slabs, cost);
  Best best;
  std::size_t first = 0;  // of the stretch below the wall
  for (std::size_t i = 0; i < row.walls.size(); ++i) {
    const std::size_t wall = row.walls[i];
    offer_plain(row, first, wall, size, best);
    if (wall < row.chunks.size() && space.chunks().is(row.chunks[wall], ChunkState::hole)) {
      const std::size_t last = row.walls[i + 1];  // the end at the latest
      const Bytes length = row.bytes(wall, wall + 1);
      offer_beside_hole(row, first, wall, last, size, std::min(length, room), space.granule(), best);
      if (length <= room) offer_across_hole(row, first, wall, last, size, best);
    }
    first = wall + 1;
  }
  if (!best.found) return std::nullopt;
  return make_window(row, best, space, cost);
}

}  // namespace spillway
