// From an address to the record whose memory begins there: open addressing, linear probing, no tombstones.
//
// A hash rather than a table by offset or a header before the data: device memory cannot hold headers, and a table by
// offset touches a page per chunk, which would be RAM outside the budget. Lookups cost about 5 ns; the table is half
// empty at least. Belongs to the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace spillway {

struct Record;

class RecordTable {
 public:
  RecordTable() : slots_(kFirstSize) {}

  [[nodiscard]] Record* find(const void* data) const {
    for (std::size_t at = home(data);; at = next(at)) {
      if (slots_[at].first == data) return slots_[at].second;
      if (slots_[at].first == nullptr) return nullptr;
    }
  }

  void insert(const void* data, Record* record) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    place(data, record);
    ++count_;
  }

  // Closes the gap behind the removed entry, so that every probe still meets its key before an empty slot.
  void erase(const void* data) {
    std::size_t hole = home(data);
    while (slots_[hole].first != data) {
      if (slots_[hole].first == nullptr) return;
      hole = next(hole);
    }
    for (std::size_t at = next(hole); slots_[at].first != nullptr; at = next(at)) {
      const std::size_t wanted = home(slots_[at].first);
      if (((at - wanted) & mask()) >= ((at - hole) & mask())) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = {};
    --count_;
  }

  [[nodiscard]] std::size_t size() const { return count_; }

  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [data, record] : slots_) {
      if (data != nullptr) visit(record);
    }
  }

 private:
  static constexpr std::size_t kFirstSize = 1024;

  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & mask(); }
  // Fibonacci hashing: addresses are multiples of 64, so the low bits alone would collide.
  [[nodiscard]] std::size_t home(const void* data) const {
    return (reinterpret_cast<std::uintptr_t>(data) * 0x9E3779B97F4A7C15ull >> 32) & mask();
  }

  void place(const void* data, Record* record) {
    std::size_t at = home(data);
    while (slots_[at].first != nullptr) at = next(at);
    slots_[at] = {data, record};
  }

  void grow() {
    std::vector<std::pair<const void*, Record*>> old(slots_.size() * 2);
    old.swap(slots_);
    for (const auto& [data, record] : old) {
      if (data != nullptr) place(data, record);
    }
  }

  std::vector<std::pair<const void*, Record*>> slots_;
  std::size_t count_ = 0;
};

}  // namespace spillway
