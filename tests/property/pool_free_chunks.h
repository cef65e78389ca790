// The free chunks of a pool as far as an outsider can know them from pool.h.
//
// Between calls whose effect the header fixes (a free beside live memory, a split, a merge by the letter of
// Note [When free neighbours merge]) a chunk is *exact*: bounds and last uses are known. Where the header leaves the pool
// a choice, the whole run of neighbours becomes *murky*: its bytes are free and its last uses are at most those noted, but
// where the seams are nobody says. A run is murky or exact as a whole; once granted and freed, memory is exact again.
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

  // A chunk becomes free with these last uses and meets its neighbours.
  void add(Range range, const Clock& uses, bool murky) {
    if (range.empty()) return;
    auto at = chunks_.insert_or_assign(range.begin.count, FreeChunk{range, uses, murky}).first;
    raise(heard_, uses);
    const bool joins_left = at != chunks_.begin() && relation(std::prev(at)->second, at->second) == Relation::merge;
    const bool joins_right = std::next(at) != chunks_.end() && relation(at->second, std::next(at)->second) == Relation::merge;
    if (joins_right) join(at);
    if (joins_left) at = join(std::prev(at));
    const bool left = at != chunks_.begin() && relation(std::prev(at)->second, at->second) != Relation::seam;
    const bool right = std::next(at) != chunks_.end() && relation(at->second, std::next(at)->second) != Relation::seam;
    const auto run = run_around(at);
    if (left || right || std::distance(run.first, run.second) >= kLongestRun) blur(run);
  }

  // Memory newly committed as part of a grant; what the pool does with the rest of it is its own affair.
  void grow(Range range) {
    if (range.empty()) return;
    const auto at = chunks_.insert_or_assign(range.begin.count, FreeChunk{range, {}, true}).first;
    blur(run_around(at));
  }

  // The range is taken. Returns the uses it had, and whether they are exact.
  std::pair<Clock, bool> take(Range range) {
    const auto at = find(range.begin);
    if (at == chunks_.end()) return {{}, false};
    if (at->second.murky || !at->second.range.contains(range)) blur(run_around(at));
    const std::pair<Clock, bool> had{at->second.uses, !at->second.murky};
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
    bool same = true, same_running = true;
    for (std::uint32_t s = 0; s < told_.streams(); ++s) {
      const bool in_left = left.uses[s] > 0, in_right = right.uses[s] > 0;
      same = same && in_left == in_right;
      const bool runs_left = !told_.done({StreamId{s}, left.uses[s]}), runs_right = !told_.done({StreamId{s}, right.uses[s]});
      same_running = same_running && runs_left == runs_right;
    }
    if (same != same_running) return Relation::unknown;
    return same ? Relation::merge : Relation::seam;
  }

  [[nodiscard]] Map::iterator find(Bytes offset) {
    auto at = chunks_.upper_bound(offset.count);
    if (at == chunks_.begin()) return chunks_.end();
    --at;
    return offset < at->second.range.end ? at : chunks_.end();
  }

  Map::iterator join(Map::iterator at) {
    const auto next = std::next(at);
    at->second.range.end = next->second.range.end;
    raise(at->second.uses, next->second.uses);
    chunks_.erase(next);
    return at;
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
