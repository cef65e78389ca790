// A small open-addressing table from 64-bit keys to values: no allocation once it has grown to its working size.
//
// Linear probing; erasing shifts the run behind the hole back, so there are no tombstones and a table that lives as
// long as the run does not decay. At most half full, always. Iteration order means nothing: `sorted()` for anything
// that shows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace spillway {

template <class Value>
class FlatTable {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] Value* find(std::uint64_t key) {
    if (size_ == 0) return nullptr;
    Slot& slot = slots_[slot_of(key)];
    return slot.used ? &slot.value : nullptr;
  }

  // Replaces what the key had.
  void put(std::uint64_t key, Value value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[slot_of(key)];
    size_ += slot.used ? 0 : 1;
    slot = {key, true, std::move(value)};
  }

  void erase(std::uint64_t key) {
    if (size_ == 0) return;
    std::size_t hole = slot_of(key);
    if (!slots_[hole].used) return;
    slots_[hole].used = false;
    --size_;
    for (std::size_t at = next(hole); slots_[at].used; at = next(at)) {
      const std::size_t home = home_of(slots_[at].key);
      const bool may_move = ((at - home) & mask()) >= ((at - hole) & mask());
      if (!may_move) continue;
      std::swap(slots_[hole], slots_[at]);
      hole = at;
    }
  }

  // By key.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, Value>> sorted() const {
    std::vector<std::pair<std::uint64_t, Value>> all;
    for (const Slot& slot : slots_)
      if (slot.used) all.emplace_back(slot.key, slot.value);
    std::ranges::sort(all, {}, &std::pair<std::uint64_t, Value>::first);
    return all;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    bool used = false;
    Value value{};
  };

  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & mask(); }
  [[nodiscard]] std::size_t home_of(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15) >> 32) & mask();
  }
  // The key's slot, or the free one where it would go.
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const {
    std::size_t at = home_of(key);
    while (slots_[at].used && slots_[at].key != key) at = next(at);
    return at;
  }
  void grow() {
    std::vector<Slot> old(std::max<std::size_t>(64, 2 * slots_.size()));
    old.swap(slots_);
    for (Slot& slot : old)
      if (slot.used) slots_[slot_of(slot.key)] = std::move(slot);
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace spillway
