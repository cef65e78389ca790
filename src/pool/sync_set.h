// The last uses of a chunk: at most one tick per stream, by ascending stream.
//
// One use, by far the commonest case, lives in the set itself; more live in a list of the SyncStore that made the set.
// A set is a handle: copy it with SyncStore::copy, give it back with SyncStore::clear.
//
//   no use: complete for everybody.   only.stream.valid() iff there is exactly one use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tick.h"

namespace spillway {

// Memory made of two pieces is free of both last uses of a stream once it is free of the later one. The minimum is
// wrong: SPILLWAY_TEST_MERGE_MINIMUM builds the pool with that mistake, to prove that the property tests would notice
// it.
constexpr std::uint64_t merge_ticks(std::uint64_t a, std::uint64_t b) {
#ifdef SPILLWAY_TEST_MERGE_MINIMUM
  return std::min(a, b);
#else
  return std::max(a, b);
#endif
}

struct SyncSet {
  static constexpr std::uint32_t kNoList = UINT32_MAX;

  Tick only;
  std::uint32_t list = kNoList;

  [[nodiscard]] constexpr bool empty() const { return !only.stream.valid() && list == kNoList; }
  [[nodiscard]] constexpr bool single() const { return only.stream.valid(); }
};

class SyncStore {
 public:
  [[nodiscard]] std::span<const Tick> uses(const SyncSet& set) const {
    if (set.single()) return {&set.only, 1};
    return set.list == SyncSet::kNoList ? std::span<const Tick>() : std::span<const Tick>(lists_[set.list]);
  }

  // `uses` may be in any order and must not lie in this store.
  void assign(SyncSet& set, std::span<const Tick> uses);
  void assign(SyncSet& set, Tick use) {
    clear(set);
    set.only = use;
  }
  void clear(SyncSet& set) {
    if (set.list != SyncSet::kNoList) give_back(set.list);
    set = SyncSet{};
  }
  [[nodiscard]] SyncSet copy(const SyncSet& set) { return set.list == SyncSet::kNoList ? set : copy_list(set.list); }
  // Every use of both; of two uses by one stream, merge_ticks.
  void merge(SyncSet& into, const SyncSet& from) {
    if (into.single() && from.single() && into.only.stream == from.only.stream) {
      into.only.value = merge_ticks(into.only.value, from.only.value);
    } else if (!from.empty()) {
      merge_lists(into, from);
    }
  }

  [[nodiscard]] bool same_users(const SyncSet& a, const SyncSet& b) const {
    if (a.list == SyncSet::kNoList && b.list == SyncSet::kNoList) return a.only.stream == b.only.stream;
    return a.list != SyncSet::kNoList && b.list != SyncSet::kNoList && same_list_users(a.list, b.list);
  }

  [[nodiscard]] std::size_t lists_in_use() const { return lists_.size() - unused_.size(); }

 private:
  void merge_lists(SyncSet& into, const SyncSet& from);
  [[nodiscard]] std::uint32_t take_list();
  void give_back(std::uint32_t list);
  [[nodiscard]] SyncSet copy_list(std::uint32_t list);
  [[nodiscard]] bool same_list_users(std::uint32_t a, std::uint32_t b) const;

  std::vector<std::vector<Tick>> lists_;  // recycled with their capacity
  std::vector<std::uint32_t> unused_;
  std::vector<Tick> merged_;  // scratch
};

}  // namespace spillway
