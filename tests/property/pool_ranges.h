// A set of bytes as disjoint ranges, neighbours joined.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/range.h"

namespace spillway::shadow {

class RangeSet {
 public:
  [[nodiscard]] Bytes total() const { return total_; }
  [[nodiscard]] const std::map<std::int64_t, std::int64_t>& ranges() const { return ranges_; }

  [[nodiscard]] bool contains(Range range) const {
    if (range.empty()) return true;
    const auto after = ranges_.upper_bound(range.begin.count);
    return after != ranges_.begin() && std::prev(after)->second >= range.end.count;
  }
  [[nodiscard]] bool touches(Range range) const {
    const auto after = ranges_.lower_bound(range.end.count);
    return !range.empty() && after != ranges_.begin() && std::prev(after)->second > range.begin.count;
  }

  // False, and nothing changes, when some of it is there already.
  bool add(Range range) {
    if (touches(range)) return false;
    if (range.empty()) return true;
    auto at = ranges_.emplace(range.begin.count, range.end.count).first;
    if (const auto next = std::next(at); next != ranges_.end() && next->first == at->second) {
      at->second = next->second;
      ranges_.erase(next);
    }
    if (at != ranges_.begin() && std::prev(at)->second == at->first) {
      std::prev(at)->second = at->second;
      ranges_.erase(at);
    }
    total_ += range.length();
    return true;
  }

  // False, and nothing changes, when some of it is missing.
  bool remove(Range range) {
    if (!contains(range)) return false;
    if (range.empty()) return true;
    const auto at = std::prev(ranges_.upper_bound(range.begin.count));
    const std::int64_t end = std::exchange(at->second, range.begin.count);
    if (at->first == at->second) ranges_.erase(at);
    if (end > range.end.count) ranges_.emplace(range.end.count, end);
    total_ -= range.length();
    return true;
  }

 private:
  std::map<std::int64_t, std::int64_t> ranges_;  // begin -> end
  Bytes total_;
};

}  // namespace spillway::shadow
