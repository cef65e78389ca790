// Which stretch of bytes was last used by whom: a sparse map from byte ranges to the last tick of every stream.
//
//   offset   0         4096       8192            20480
//   uses     | 1@7     | 1@7 2@3  | (nothing)     | 3@12 ...
//
// Bytes without uses have no entry. Neighbours with equal uses are one entry, so the map stays about as long as there
// are different histories.
#pragma once

#include <iterator>
#include <map>

#include "base/range.h"
#include "pool_order.h"

namespace spillway::shadow {

class ByteUses {
 public:
  // visit(Range, const Clock&) for every stretch with uses inside the range, by address.
  template <class Visit>
  void each(Range range, Visit visit) const {
    for (auto at = first_touching(range.begin); at != map_.end() && at->first < range.end.count; ++at) {
      const Range stretch{{std::max(at->first, range.begin.count)}, {std::min(at->second.end, range.end.count)}};
      if (!stretch.empty()) visit(stretch, at->second.uses);
    }
  }

  // change(Clock&) once for every stretch of the range, those without uses included.
  template <class Change>
  void change(Range range, Change change) {
    if (range.empty()) return;
    cut(range.begin.count);
    cut(range.end.count);
    fill_gaps(range);
    auto at = map_.find(range.begin.count);
    while (at != map_.end() && at->first < range.end.count) {
      change(at->second.uses);
      at = at->second.uses == Clock{} ? map_.erase(at) : joined_with_previous(at);
    }
    if (at != map_.end()) joined_with_previous(at);
  }

  void erase(Range range) {
    change(range, [](Clock& uses) { uses = Clock{}; });
  }

  [[nodiscard]] std::size_t size() const { return map_.size(); }

 private:
  struct Stretch {
    std::int64_t end = 0;
    Clock uses{};
  };
  using Map = std::map<std::int64_t, Stretch>;

  [[nodiscard]] Map::const_iterator first_touching(Bytes offset) const {
    auto at = map_.upper_bound(offset.count);
    if (at != map_.begin() && std::prev(at)->second.end > offset.count) --at;
    return at;
  }

  void cut(std::int64_t offset) {
    auto at = map_.lower_bound(offset);
    if (at == map_.begin()) return;
    Stretch& before = std::prev(at)->second;
    if (before.end <= offset) return;
    map_.emplace_hint(at, offset, before);
    before.end = offset;
  }

  void fill_gaps(Range range) {
    std::int64_t offset = range.begin.count;
    for (auto at = map_.lower_bound(offset); offset < range.end.count; ++at) {
      const std::int64_t next = at == map_.end() ? range.end.count : std::min(at->first, range.end.count);
      if (offset < next) at = map_.emplace_hint(at, offset, Stretch{next, {}});
      offset = at->second.end;
    }
  }

  // Joins the entry with its left neighbour where they touch and agree; returns the entry after it.
  Map::iterator joined_with_previous(Map::iterator at) {
    if (at != map_.begin()) {
      Stretch& before = std::prev(at)->second;
      if (before.end == at->first && before.uses == at->second.uses) {
        before.end = at->second.end;
        return map_.erase(at);
      }
    }
    return std::next(at);
  }

  Map map_;
};

}  // namespace spillway::shadow
