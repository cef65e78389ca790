#include "pool/free_index.h"

#include <algorithm>

#include "base/error.h"

namespace spillway {

namespace {

// A treap wants priorities unrelated to the keys; mixing the bits of the name gives them, the same in every run.
// The mixer is the 32-bit finaliser of MurmurHash3.
constexpr std::uint32_t priority_of(std::uint32_t name) {
  name ^= name >> 16;
  name *= 0x85ebca6bU;
  name ^= name >> 13;
  name *= 0xc2b2ae35U;
  return name ^ (name >> 16);
}

}  // namespace

// Sizes below 8 units have a bin each; from there on the three bits after the leading one choose among eight.
std::uint32_t FreeIndex::bin_of(Bytes size) const {
  const auto units = static_cast<std::uint64_t>(size.count) >> unit_shift_;
  if (units < 8) return static_cast<std::uint32_t>(units);
  const int exponent = 63 - std::countl_zero(units);
  const auto step = static_cast<std::uint32_t>(units >> (exponent - 3)) & 7U;
  return std::min(static_cast<std::uint32_t>(exponent - 2) * 8 + step, kBins - 1);
}

std::uint32_t FreeIndex::next_occupied(const Shelf& shelf, std::uint32_t bin) {
  if (bin >= kBins) return kBins;
  std::uint64_t word = shelf.occupied[bin / 64] & (~std::uint64_t{0} << (bin % 64));
  for (std::uint32_t at = bin / 64;;) {
    if (word != 0) return at * 64 + static_cast<std::uint32_t>(std::countr_zero(word));
    if (++at == kBins / 64) return kBins;
    word = shelf.occupied[at];
  }
}

void FreeIndex::note_root(Shelf& shelf, std::uint32_t bin) {
  const std::uint64_t bit = std::uint64_t{1} << (bin % 64);
  const std::uint32_t root = shelf.root[bin];
  if (root == kNone) {
    shelf.occupied[bin / 64] &= ~bit;
  } else {
    shelf.occupied[bin / 64] |= bit;
    shelf.oldest[bin] = nodes_[root].oldest;
  }
}

bool FreeIndex::before(std::uint32_t a, std::uint32_t b) const {
  const Entry& x = nodes_[a].entry;
  const Entry& y = nodes_[b].entry;
  return x.size != y.size ? x.size < y.size : x.address < y.address;
}

void FreeIndex::refresh(std::uint32_t name) {
  Node& node = nodes_[name];
  node.oldest = node.entry.tick;
  if (node.left != kNone) node.oldest = std::min(node.oldest, nodes_[node.left].oldest);
  if (node.right != kNone) node.oldest = std::min(node.oldest, nodes_[node.right].oldest);
}

void FreeIndex::insert(std::uint32_t name, std::uint32_t shelf, const Entry& entry) {
  if (name >= nodes_.size()) nodes_.resize(std::max<std::size_t>(name + 1, nodes_.size() * 2));
  while (shelf >= shelves_.size()) shelves_.emplace_back().root.fill(kNone);
  const std::uint32_t priority = priority_of(name);
  nodes_[name] = {.entry = entry, .oldest = entry.tick, .priority = priority, .shelf = shelf};

  Shelf& on = shelves_[shelf];
  const std::uint32_t bin = bin_of(entry.size);
  std::uint32_t* link = &on.root[bin];
  while (*link != kNone && nodes_[*link].priority > priority) {
    Node& above = nodes_[*link];
    above.oldest = std::min(above.oldest, entry.tick);
    link = before(name, *link) ? &above.left : &above.right;
  }
  split(*link, name, nodes_[name].left, nodes_[name].right);
  *link = name;
  refresh(name);
  note_root(on, bin);
  ++on.count;
}

void FreeIndex::erase(std::uint32_t name) {
  Shelf& on = shelves_[nodes_[name].shelf];
  const std::uint32_t bin = bin_of(nodes_[name].entry.size);
  erase_below(on.root[bin], name);
  note_root(on, bin);
  --on.count;
  nodes_[name].shelf = kNone;
}

void FreeIndex::erase_below(std::uint32_t& link, std::uint32_t name) {
  if (link == name) {
    link = join(nodes_[name].left, nodes_[name].right);
    return;
  }
  SPILLWAY_ENSURE(link != kNone, "an entry of the index is found where its size says");
  Node& node = nodes_[link];
  erase_below(before(name, link) ? node.left : node.right, name);
  if (node.oldest == nodes_[name].entry.tick) refresh(link);
}

void FreeIndex::split(std::uint32_t root, std::uint32_t at, std::uint32_t& below, std::uint32_t& above) {
  if (root == kNone) {
    below = above = kNone;
    return;
  }
  if (before(root, at)) {
    below = root;
    split(nodes_[root].right, at, nodes_[root].right, above);
  } else {
    above = root;
    split(nodes_[root].left, at, below, nodes_[root].left);
  }
  refresh(root);
}

std::uint32_t FreeIndex::join(std::uint32_t below, std::uint32_t above) {
  if (below == kNone) return above;
  if (above == kNone) return below;
  if (nodes_[below].priority > nodes_[above].priority) {
    nodes_[below].right = join(nodes_[below].right, above);
    refresh(below);
    return below;
  }
  nodes_[above].left = join(below, nodes_[above].left);
  refresh(above);
  return above;
}

std::uint32_t FreeIndex::find_best(std::uint32_t shelf, Bytes size, std::uint64_t newest) const {
  if (count(shelf) == 0) return kNone;
  const Shelf& on = shelves_[shelf];
  for (std::uint32_t bin = next_occupied(on, bin_of(size)); bin < kBins; bin = next_occupied(on, bin + 1)) {
    if (on.oldest[bin] > newest) continue;
    const std::uint32_t best = first_from(on.root[bin], size, newest);
    if (best != kNone) return best;
  }
  return kNone;
}

// Once below a node whose whole left or right side is large enough, `oldest` tells where the answer lies: O(log n).
std::uint32_t FreeIndex::first_from(std::uint32_t root, Bytes size, std::uint64_t newest) const {
  while (root != kNone && nodes_[root].oldest <= newest) {
    const Node& node = nodes_[root];
    if (node.entry.size >= size) {
      const std::uint32_t smaller = first_from(node.left, size, newest);
      if (smaller != kNone) return smaller;
      if (node.entry.tick <= newest) return root;
    }
    root = node.right;
  }
  return kNone;
}

void FreeIndex::verify() const {
  std::int64_t held = 0;
  for (std::uint32_t number = 0; number < shelves_.size(); ++number) {
    const Shelf& shelf = shelves_[number];
    std::int64_t counted = 0;
    for (std::uint32_t bin = 0; bin < kBins; ++bin) {
      const bool occupied = (shelf.occupied[bin / 64] >> (bin % 64) & 1) != 0;
      SPILLWAY_ENSURE(occupied == (shelf.root[bin] != kNone), "the bitmap of a shelf tells its non-empty bins");
      if (!occupied) continue;
      SPILLWAY_ENSURE(shelf.oldest[bin] == nodes_[shelf.root[bin]].oldest, "a bin knows its oldest tick");
      std::uint32_t previous = kNone;
      counted += verify_below(shelf.root[bin], number, bin, previous);
    }
    SPILLWAY_ENSURE(counted == shelf.count, "a shelf counts its entries");
    held += counted;
  }
  const auto on_a_shelf = [](const Node& node) { return node.shelf != kNone; };
  SPILLWAY_ENSURE(std::ranges::count_if(nodes_, on_a_shelf) == held, "every entry is reachable from its shelf");
}

std::int64_t FreeIndex::verify_below(std::uint32_t root, std::uint32_t shelf, std::uint32_t bin,
                                     std::uint32_t& previous) const {
  if (root == kNone) return 0;
  const Node& node = nodes_[root];
  const std::int64_t smaller = verify_below(node.left, shelf, bin, previous);
  SPILLWAY_ENSURE(node.shelf == shelf && bin_of(node.entry.size) == bin, "an entry stands in the bin of its size");
  SPILLWAY_ENSURE(previous == kNone || before(previous, root), "a treap is ordered by size and address");
  previous = root;
  std::uint64_t oldest = node.entry.tick;
  for (const std::uint32_t child : {node.left, node.right}) {
    if (child == kNone) continue;
    oldest = std::min(oldest, nodes_[child].oldest);
    SPILLWAY_ENSURE(nodes_[child].priority <= node.priority, "a treap is a heap by priority");
  }
  SPILLWAY_ENSURE(oldest == node.oldest, "a treap node knows the oldest tick below it");
  return smaller + 1 + verify_below(node.right, shelf, bin, previous);
}

}  // namespace spillway
