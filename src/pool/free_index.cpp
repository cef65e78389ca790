#include "pool/free_index.h"

#include <algorithm>
#include <span>

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

// Sizes below 64 units have a bin each; from there on the six bits after the leading one choose among 64.
std::uint32_t FreeIndex::bin_of(Bytes size) const {
  const auto units = static_cast<std::uint64_t>(size.count) >> unit_shift_;
  if (units < kOctave) return static_cast<std::uint32_t>(units);
  const auto doublings = static_cast<std::uint32_t>(63 - std::countl_zero(units)) - kStepBits;
  const auto step = static_cast<std::uint32_t>(units >> doublings);  // with its leading one: 64..127
  return std::min((doublings << kStepBits) + step, kBins - 1);
}

// The first non-empty bin from this one on; kBins if there is none.
std::uint32_t FreeIndex::next_occupied(const Shelf& shelf, std::uint32_t bin) {
  if (bin >= kBins) return kBins;
  std::uint32_t octave = bin / kOctave;
  std::uint64_t bins = shelf.occupied[octave] & (~std::uint64_t{0} << (bin % kOctave));
  while (bins == 0) {
    if (++octave == kOctaves) return kBins;
    bins = shelf.occupied[octave];
  }
  return octave * kOctave + static_cast<std::uint32_t>(std::countr_zero(bins));
}

// The same for bins that have an entry with a tick of at most `newest`.
std::uint32_t FreeIndex::next_with(const Shelf& shelf, std::uint32_t bin, std::uint64_t newest) {
  for (bin = next_occupied(shelf, bin); bin < kBins && shelf.oldest[bin] > newest;) {
    const std::uint32_t octave = bin / kOctave;
    bin = next_occupied(shelf, shelf.octave_oldest[octave] > newest ? (octave + 1) * kOctave : bin + 1);
  }
  return bin;
}

void FreeIndex::refresh_octave(Shelf& shelf, std::uint32_t octave) {
  std::uint64_t oldest = kAnyTick;
  for (std::uint64_t bins = shelf.occupied[octave]; bins != 0; bins &= bins - 1) {
    oldest = std::min(oldest, shelf.oldest[octave * kOctave + static_cast<std::uint32_t>(std::countr_zero(bins))]);
  }
  shelf.octave_oldest[octave] = oldest;
}

void FreeIndex::refresh(Node& node) {
  node.oldest = node.entry.tick;
  if (node.left != kNone) node.oldest = std::min(node.oldest, nodes_[node.left].oldest);
  if (node.right != kNone) node.oldest = std::min(node.oldest, nodes_[node.right].oldest);
}

void FreeIndex::insert(std::uint32_t name, std::uint32_t shelf, const Entry& entry) {
  if (name >= nodes_.size()) nodes_.resize(std::max<std::size_t>(name + 1, nodes_.size() * 2));
  while (shelf >= shelves_.size()) add_shelf();
  Shelf& on = shelves_[shelf];
  Node& node = nodes_[name];
  const std::uint32_t bin = bin_of(entry.size);
  node = {.entry = entry, .oldest = entry.tick, .priority = priority_of(name), .bin = bin, .shelf = shelf};

  std::uint32_t* link = &on.root[bin];
  while (*link != kNone && nodes_[*link].priority > node.priority) {
    Node& above = nodes_[*link];
    above.oldest = std::min(above.oldest, entry.tick);
    link = before(entry, above.entry) ? &above.left : &above.right;
  }
  if (*link != kNone) {
    split(*link, entry, node.left, node.right);
    refresh(node);
  }
  *link = name;
  const std::uint32_t octave = bin / kOctave;
  on.occupied[octave] |= std::uint64_t{1} << (bin % kOctave);
  on.oldest[bin] = std::min(on.oldest[bin], entry.tick);
  on.octave_oldest[octave] = std::min(on.octave_oldest[octave], entry.tick);
  ++on.count;
}

// Going down, `oldest` only grows, up to the tick of the entry: where it is smaller it comes from elsewhere and stays.
void FreeIndex::erase(std::uint32_t name) {
  Node& node = nodes_[name];
  Shelf& on = shelves_[node.shelf];
  const std::uint64_t tick = node.entry.tick;
  std::uint32_t* link = &on.root[node.bin];
  while (*link != name && (nodes_[*link].oldest < tick || tick == 0)) {
    Node& above = nodes_[*link];
    link = before(node.entry, above.entry) ? &above.left : &above.right;
    SPILLWAY_ENSURE(*link != kNone, "an entry of the index is found where its size says");
  }
  erase_below(*link, name);
  node.shelf = kNone;
  --on.count;

  const std::uint32_t root = on.root[node.bin], octave = node.bin / kOctave;
  if (root == kNone) on.occupied[octave] &= ~(std::uint64_t{1} << (node.bin % kOctave));
  if (on.oldest[node.bin] < tick) return;
  on.oldest[node.bin] = root == kNone ? kAnyTick : nodes_[root].oldest;
  if (on.octave_oldest[octave] == tick && (tick != 0 || on.occupied[octave] == 0)) refresh_octave(on, octave);
}

void FreeIndex::erase_below(std::uint32_t& link, std::uint32_t name) {
  if (link == name) {
    const Node& node = nodes_[name];
    link = node.left == kNone ? node.right : join(node.left, node.right);
    return;
  }
  SPILLWAY_ENSURE(link != kNone, "an entry of the index is found where its size says");
  Node& above = nodes_[link];
  erase_below(before(nodes_[name].entry, above.entry) ? above.left : above.right, name);
  refresh(above);
}

void FreeIndex::split(std::uint32_t root, const Entry& at, std::uint32_t& below, std::uint32_t& above) {
  if (root == kNone) {
    below = above = kNone;
    return;
  }
  Node& node = nodes_[root];
  if (before(node.entry, at)) {
    below = root;
    split(node.right, at, node.right, above);
  } else {
    above = root;
    split(node.left, at, below, node.left);
  }
  refresh(node);
}

std::uint32_t FreeIndex::join(std::uint32_t below, std::uint32_t above) {
  if (below == kNone) return above;
  if (above == kNone) return below;
  Node& lower = nodes_[below];
  Node& upper = nodes_[above];
  if (lower.priority > upper.priority) {
    lower.right = join(lower.right, above);
    refresh(lower);
    return below;
  }
  upper.left = join(below, upper.left);
  refresh(upper);
  return above;
}

void FreeIndex::add_shelf() {
  Shelf& shelf = shelves_.emplace_back();
  shelf.root.fill(kNone);
  shelf.oldest.fill(kAnyTick);
  shelf.octave_oldest.fill(kAnyTick);
}

std::uint32_t FreeIndex::find_best(std::uint32_t shelf, Bytes size) const {
  if (count(shelf) == 0) return kNone;
  const Shelf& on = shelves_[shelf];
  for (std::uint32_t bin = next_occupied(on, bin_of(size)); bin < kBins; bin = next_occupied(on, bin + 1)) {
    const std::uint32_t best = first_from(on.root[bin], size);
    if (best != kNone) return best;
  }
  return kNone;
}

std::uint32_t FreeIndex::find_best(std::uint32_t shelf, Bytes size, std::uint64_t newest) const {
  if (count(shelf) == 0) return kNone;
  const Shelf& on = shelves_[shelf];
  for (std::uint32_t bin = next_with(on, bin_of(size), newest); bin < kBins; bin = next_with(on, bin + 1, newest)) {
    const std::uint32_t best = first_from(on.root[bin], size, newest);
    if (best != kNone) return best;
  }
  return kNone;
}

std::uint32_t FreeIndex::first_from(std::uint32_t root, Bytes size) const {
  std::uint32_t best = kNone;
  while (root != kNone) {
    const Node& node = nodes_[root];
    const bool fits = node.entry.size >= size;
    best = fits ? root : best;
    root = fits ? node.left : node.right;
  }
  return best;
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
      const std::uint32_t root = shelf.root[bin];
      const bool occupied = (shelf.occupied[bin / kOctave] >> (bin % kOctave) & 1) != 0;
      SPILLWAY_ENSURE(occupied == (root != kNone), "the bitmap of a shelf tells its non-empty bins");
      const std::uint64_t oldest = occupied ? nodes_[root].oldest : kAnyTick;
      SPILLWAY_ENSURE(shelf.oldest[bin] == oldest, "a bin knows its oldest tick");
      std::uint32_t previous = kNone;
      counted += verify_below(root, number, bin, previous);
    }
    for (std::uint32_t octave = 0; octave < kOctaves; ++octave) {
      const auto bins = std::span(shelf.oldest).subspan(octave * kOctave, kOctave);
      SPILLWAY_ENSURE(shelf.octave_oldest[octave] == std::ranges::min(bins), "an octave knows its oldest tick");
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
  SPILLWAY_ENSURE(node.shelf == shelf && node.bin == bin, "an entry knows where it stands");
  SPILLWAY_ENSURE(bin_of(node.entry.size) == bin, "an entry stands in the bin of its size");
  SPILLWAY_ENSURE(previous == kNone || before(nodes_[previous].entry, node.entry), "a treap is in order");
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
