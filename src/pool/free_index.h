// An ordered index of free pieces that finds the exact best fit: smallest size that does, then lowest address.
//
// Entries stand on shelves (one per kind of last use) and carry the tick of that use, so "best fit among those last
// used up to tick t" is one search. A shelf is an array of bins, 64 per doubling of the size (an octave), with a bitmap
// of the non-empty ones; a bin is a treap ordered by (size, address) whose nodes know the oldest tick below them. Bins
// keep the common case near constant and in few cache lines; the treaps keep the worst one, all sizes alike, at O(log
// n).
//
//   oldest(node) == min(tick(node), oldest(left), oldest(right));   priority(parent) >= priority(child)
//
// Tick 0 means "no tick": a shelf has either none or only such entries. Entries are named by the caller's dense
// numbers. Nothing is allocated once the largest number and shelf were seen.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace spillway {

class FreeIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct Entry {
    Bytes size, address;
    std::uint64_t tick = 0;
  };

  // Sizes and addresses are multiples of `unit`, a power of two; sizes are below 2^41 units.
  explicit FreeIndex(Bytes unit) : unit_shift_(std::countr_zero(static_cast<std::uint64_t>(unit.count))) {}

  void insert(std::uint32_t name, std::uint32_t shelf, const Entry& entry);
  void erase(std::uint32_t name);
  [[nodiscard]] bool contains(std::uint32_t name) const { return name < nodes_.size() && nodes_[name].shelf != kNone; }
  [[nodiscard]] std::uint32_t shelf(std::uint32_t name) const { return nodes_[name].shelf; }
  [[nodiscard]] const Entry& operator[](std::uint32_t name) const { return nodes_[name].entry; }

  // The first by (size, address) of at least `size`, and whose tick is at most `newest`; kNone if there is none.
  [[nodiscard]] std::uint32_t find_best(std::uint32_t shelf, Bytes size) const;
  [[nodiscard]] std::uint32_t find_best(std::uint32_t shelf, Bytes size, std::uint64_t newest) const;

  // Visits the entries of at least `size` by (size, address) until `visitor(name)` returns false.
  template <class Visitor>
  void visit_from(std::uint32_t shelf, Bytes size, Visitor&& visitor) const;

  [[nodiscard]] std::uint32_t shelves() const { return static_cast<std::uint32_t>(shelves_.size()); }
  [[nodiscard]] std::int64_t count(std::uint32_t shelf) const {
    return shelf < shelves_.size() ? shelves_[shelf].count : 0;
  }

  void verify() const;

 private:
  static constexpr std::uint64_t kAnyTick = UINT64_MAX;  // later than any tick
  static constexpr std::uint32_t kStepBits = 6;          // bins per octave, as a power of two
  static constexpr std::uint32_t kOctave = 1U << kStepBits;
  static constexpr std::uint32_t kOctaves = 36;  // the first holds the sizes below 64 units, a bin each
  static constexpr std::uint32_t kBins = kOctaves * kOctave;

  struct alignas(64) Node {  // one cache line
    Entry entry;
    std::uint64_t oldest = 0;
    std::uint32_t left = kNone, right = kNone;
    std::uint32_t priority = 0;
    std::uint32_t bin = 0;
    std::uint32_t shelf = kNone;
  };
  struct Shelf {
    std::array<std::uint64_t, kOctaves> occupied{};
    std::array<std::uint64_t, kOctaves> octave_oldest{};  // rejects an octave without a look at its bins
    std::array<std::uint64_t, kBins> oldest{};            // rejects a bin without a look at its nodes
    std::array<std::uint32_t, kBins> root{};
    std::int64_t count = 0;
  };

  void add_shelf();
  [[nodiscard]] std::uint32_t bin_of(Bytes size) const;
  [[nodiscard]] static std::uint32_t next_occupied(const Shelf& shelf, std::uint32_t bin);
  [[nodiscard]] static std::uint32_t next_with(const Shelf& shelf, std::uint32_t bin, std::uint64_t newest);
  static void refresh_octave(Shelf& shelf, std::uint32_t octave);

  [[nodiscard]] static bool before(const Entry& a, const Entry& b) {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }
  void refresh(Node& node);
  void split(std::uint32_t root, const Entry& at, std::uint32_t& below, std::uint32_t& above);
  [[nodiscard]] std::uint32_t join(std::uint32_t below, std::uint32_t above);
  void erase_below(std::uint32_t& link, std::uint32_t name);
  [[nodiscard]] std::uint32_t first_from(std::uint32_t root, Bytes size) const;
  [[nodiscard]] std::uint32_t first_from(std::uint32_t root, Bytes size, std::uint64_t newest) const;
  [[nodiscard]] std::int64_t verify_below(std::uint32_t root, std::uint32_t shelf, std::uint32_t bin,
                                          std::uint32_t& previous) const;

  template <class Visitor>
  bool visit_below(std::uint32_t root, Bytes size, Visitor& visitor) const;

  std::vector<Node> nodes_;
  std::vector<Shelf> shelves_;
  int unit_shift_;
};

template <class Visitor>
void FreeIndex::visit_from(std::uint32_t shelf, Bytes size, Visitor&& visitor) const {
  if (count(shelf) == 0) return;
  const Shelf& on = shelves_[shelf];
  for (std::uint32_t bin = next_occupied(on, bin_of(size)); bin < kBins; bin = next_occupied(on, bin + 1)) {
    if (!visit_below(on.root[bin], size, visitor)) return;
  }
}

template <class Visitor>
bool FreeIndex::visit_below(std::uint32_t root, Bytes size, Visitor& visitor) const {
  if (root == kNone) return true;
  const Node& node = nodes_[root];
  if (node.entry.size >= size) {
    if (!visit_below(node.left, size, visitor) || !visitor(root)) return false;
  }
  return visit_below(node.right, size, visitor);
}

}  // namespace spillway
