// The free chunks of a pool as far as an outsider can know them from pool.h.
//
// Between calls whose effect the header fixes (a free beside live memory, a split, a merge by the letter of
// Note [When free neighbours merge]) a chunk is *exact*: bounds and last uses are known. Where the header leaves the
// pool a choice, the whole run of neighbours becomes *murky*: its bytes are free and its last uses are at most those
// noted, but where the seams are nobody says. A run is murky or exact as a whole; once granted and freed, memory is
// exact again.
//
//   live | exact | exact | live | murky murky | live
//         `---- run ----'        `--- run ---'
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "pool/pool.h"
#include "pool_order.h"

namespace spillway::shadow {

struct FreeChunk {
  Range range;
  Clock uses{};
  bool murky = false;
};
using Run = std::vector<FreeChunk>;

[[nodiscard]] inline Range extent(const Run& run) { return {run.front().range.begin, run.back().range.end}; }
[[nodiscard]] inline Clock union_of_uses(const Run& run) {
  Clock uses{};
  for (const FreeChunk& chunk : run) raise(uses, chunk.uses);
  return uses;
}

class FreeChunks {
 public:
  // `told`: what the pool has been told of the streams.
  explicit FreeChunks(const StreamOrder& told) : told_(told) {}

  [[nodiscard]] std::vector<Run> runs() const {
    std::vector<Run> runs;
    for (const auto& [begin, chunk] : chunks_) {
      if (runs.empty() || runs.back().back().range.end.count != begin) runs.emplace_back();
      runs.back().push_back(chunk);
    }
    return runs;
  }

  [[nodiscard]] bool complete(const Clock& uses) const {
    for (std::uint32_t s = 0; s < told_.streams(); ++s) {
      if (!told_.done({StreamId{s}, uses[s]})) return false;
    }
    return true;
  }

  // A chunk becomes free with these last uses and meets its neighbours. It merges with those the note names; where the
  // outcome would depend on which pair goes first, or on whether the merged chunk meets its own neighbours, it is
  // murky.
  void add(Range range, const Clock& uses, bool murky) {
    if (range.empty()) return;
    raise(heard_, uses);
    const auto at = chunks_.insert_or_assign(range.begin.count, FreeChunk{range, uses, murky}).first;
    const auto run = run_around(at);
    std::vector<FreeChunk> row;
    for (auto each = run.first; each != run.second; ++each) row.push_back(each->second);
    const auto self = static_cast<std::size_t>(std::distance(run.first, at));
    const std::size_t first = self > 0 && relation(row[self - 1], row[self]) == Relation::merge ? self - 1 : self;
    const std::size_t last =
        self + 1 < row.size() && relation(row[self], row[self + 1]) == Relation::merge ? self + 1 : self;
    if (row.size() >= kLongestRun || !settled(row, first, self, last)) return blur(run);
    for (auto joined = std::next(run.first, static_cast<std::ptrdiff_t>(first));
         joined->second.range.end < row[last].range.end;) {
      join(joined);
    }
  }

  // Memory newly committed for a grant. Where it stands alone it is an exact chunk that nobody has used; beside free
  // memory, what the pool does with the two is its own affair.
  void grow(Range range) {
    if (range.empty()) return;
    const auto at = chunks_.insert_or_assign(range.begin.count, FreeChunk{range, {}, false}).first;
    const auto run = run_around(at);
    if (std::next(run.first) != run.second) blur(run);
  }

  // The range is taken. Returns it with the uses it had.
  FreeChunk take(Range range) {
    const auto at = find(range.begin);
    if (at == chunks_.end()) return {range, {}, true};
    if (at->second.murky || !at->second.range.contains(range)) blur(run_around(at));
    const FreeChunk had{range, at->second.uses, at->second.murky};
    cut(range);
    return had;
  }

  // The chunk that holds the whole range, if its bounds are known.
  [[nodiscard]] const FreeChunk* exact_around(Range range) const {
    const auto after = chunks_.upper_bound(range.begin.count);
    if (after == chunks_.begin()) return nullptr;
    const FreeChunk& chunk = std::prev(after)->second;
    return chunk.range.contains(range) && !chunk.murky ? &chunk : nullptr;
  }

  // The pool has its own way with the run that holds the range.
  void blur_around(Range range) {
    if (const auto at = find(range.begin); at != chunks_.end()) blur(run_around(at));
  }

  void cut(Range range) {
    if (range.empty()) return;
    auto at = chunks_.upper_bound(range.begin.count);
    if (at != chunks_.begin()) --at;
    while (at != chunks_.end() && at->first < range.end.count) {
      const FreeChunk chunk = at->second;
      if (!chunk.range.overlaps(range)) {
        ++at;
        continue;
      }
      at = chunks_.erase(at);
      keep({{chunk.range.begin, range.begin}, chunk.uses, chunk.murky});
      keep({{range.end, chunk.range.end}, chunk.uses, chunk.murky});
    }
  }

 private:
  enum class Relation : std::uint8_t { merge, seam, unknown };
  using Map = std::map<std::int64_t, FreeChunk>;

  [[nodiscard]] Relation relation(const FreeChunk& left, const FreeChunk& right) const {
    if (left.range.end != right.range.begin) return Relation::seam;
    if (left.murky || right.murky) return Relation::unknown;
    if (told_.streams() == 1 || (complete(left.uses) && complete(right.uses))) return Relation::merge;
    if (std::ranges::count_if(heard_, [](std::uint64_t value) { return value > 0; }) < 2) return Relation::unknown;
    for (std::uint32_t s = 0; s < told_.streams(); ++s) {
      if ((left.uses[s] > 0) != (right.uses[s] > 0)) return Relation::seam;
    }
    return Relation::merge;
  }

  // Whether row[first..last] becomes one chunk, and nothing more, in whatever order its parts are joined to `self`.
  [[nodiscard]] bool settled(const std::vector<FreeChunk>& row, std::size_t first, std::size_t self,
                             std::size_t last) const {
    for (std::size_t from = first; from <= self; ++from) {
      for (std::size_t to = self; to <= last; ++to) {
        FreeChunk part = row[from];
        for (std::size_t i = from + 1; i <= to; ++i) part = united(part, row[i]);
        const Relation left = from > 0 ? relation(row[from - 1], part) : Relation::seam;
        const Relation right = to + 1 < row.size() ? relation(part, row[to + 1]) : Relation::seam;
        if (left != (from > first ? Relation::merge : Relation::seam)) return false;
        if (right != (to < last ? Relation::merge : Relation::seam)) return false;
      }
    }
    return true;
  }
  [[nodiscard]] static FreeChunk united(FreeChunk left, const FreeChunk& right) {
    left.range.end = right.range.end;
    raise(left.uses, right.uses);
    return left;
  }

  [[nodiscard]] Map::iterator find(Bytes offset) {
    auto at = chunks_.upper_bound(offset.count);
    if (at == chunks_.begin()) return chunks_.end();
    --at;
    return offset < at->second.range.end ? at : chunks_.end();
  }

  void join(Map::iterator at) {
    at->second = united(at->second, std::next(at)->second);
    chunks_.erase(std::next(at));
  }

  std::pair<Map::iterator, Map::iterator> run_around(Map::iterator at) {
    auto first = at, last = std::next(at);
    while (first != chunks_.begin() && std::prev(first)->second.range.end.count == first->first) --first;
    while (last != chunks_.end() && std::prev(last)->second.range.end.count == last->first) ++last;
    return {first, last};
  }

  static void blur(std::pair<Map::iterator, Map::iterator> run) {
    Clock uses{};
    for (auto at = run.first; at != run.second; ++at) raise(uses, at->second.uses);
    for (auto at = run.first; at != run.second; ++at) {
      at->second.uses = uses;
      at->second.murky = true;
    }
  }

  void keep(const FreeChunk& chunk) {
    if (!chunk.range.empty()) chunks_[chunk.range.begin.count] = chunk;
  }

  const StreamOrder& told_;
  Map chunks_;
  Clock heard_{};
};

}  // namespace spillway::shadow
