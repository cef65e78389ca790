// A pool too simple to be wrong, and the same pool wrong on purpose: what the oracle itself is tried on.
//
// First fit by address, free neighbours merged at once, waits for whatever is not known to be done. It has the
// functions of Pool that the driver calls. `Flaw` breaks one rule at a time.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "pool/pool.h"
#include "pool_order.h"

namespace spillway::shadow {

enum class Flaw : std::uint8_t {
  none,
  merges_with_minimum,
  forgets_one_wait,
  overlaps,
  misaligns,
  rounds_down,
  exceeds_limit,
  skips_commit,
  lies_about_class,
  decommits_in_use,
  miscounts,
  forgets_uses_of_unused,
  repeats_ids,
  hides_pending,
};
inline constexpr int kFlawCount = 14;

template <Flaw kFlaw>
class ReferencePool {
 public:
  explicit ReferencePool(const PoolOptions& options) : options_(options), limit_(options.limit) {}

  std::optional<Grant> try_allocate(Bytes asked, StreamId on) {
    const Bytes size = kFlaw == Flaw::rounds_down ? std::max(options_.alignment, round_down(asked, options_.alignment))
                                                  : round_up(asked, options_.alignment);
    Grant grant{.granted = GrantClass::ordered};
    auto at = std::ranges::find_if(chunks_, [&](const auto& entry) { return entry.second.fits(size); });
    if (at == chunks_.end()) at = grow(size, grant.commit);
    if (at == chunks_.end()) {
      ++stats_.refusals;
      return std::nullopt;
    }
    name(grant, take(at, size), on);
    return grant;
  }

  void abandon(const Grant& grant) {
    release(grant.range, chunks_.at(grant.range.begin.count).uses);
    ids_.erase(grant.chunk.index);
    drop(grant.commit);
  }

  void free(ChunkId id, std::span<const Tick> last_uses) {
    const Range range = ids_.at(id.index);
    ids_.erase(id.index);
    Clock uses{};
    if (kFlaw != Flaw::forgets_uses_of_unused && last_uses.empty()) uses = chunks_.at(range.begin.count).uses;
    for (const Tick tick : last_uses) raise(uses, tick);
    raise(heard_, uses);
    release(range, uses);
  }

  void note_done(Tick tick) {
    raise(heard_, tick);
    raise(done_, tick);
  }
  void note_wait(StreamId, Tick tick, std::uint64_t) { raise(heard_, tick); }
  std::optional<Tick> pending(StreamId stream) const {
    const Tick newest{stream, heard_[stream.index]};
    if (newest.value <= done_[stream.index] || kFlaw == Flaw::hides_pending) return std::nullopt;
    return newest;
  }
  std::optional<Window> find_window(Bytes, const std::function<double(ChunkId)>&) const { return std::nullopt; }
  std::optional<Remap> plan_remap(Bytes) const { return std::nullopt; }
  void apply_remap(const Remap&) {}

  std::vector<Range> trim() {
    std::vector<Range> given;
    for (const auto& [begin, chunk] : chunks_) {
      const Range whole{round_up(Bytes{begin}, options_.granule), round_down(chunk.range.end, options_.granule)};
      const bool idle = running(chunk.uses).empty() || kFlaw == Flaw::decommits_in_use;
      if (chunk.free && idle && !whole.empty()) given.push_back(whole);
    }
    for (const Range range : given) drop(range);
    return given;
  }

  void set_limit(Bytes limit) { limit_ = limit; }
  Bytes limit() const { return limit_; }
  Bytes reserved() const {
    return sum([](const Chunk&) { return true; });
  }
  Bytes live() const {
    return sum([](const Chunk& chunk) { return !chunk.free; });
  }
  Range range(ChunkId id) const { return ids_.at(id.index); }
  void verify() const {}

  PoolStats stats() const {
    PoolStats stats = stats_;
    stats.live = live();
    stats.reserved = reserved();
    stats.live_chunks = static_cast<std::int64_t>(ids_.size()) + (kFlaw == Flaw::miscounts ? 1 : 0);
    stats.free_chunks = std::ranges::count_if(chunks_, [](const auto& entry) { return entry.second.free; });
    return stats;
  }

 private:
  struct Chunk {
    Range range;
    bool free = true;
    Clock uses{};
    [[nodiscard]] bool fits(Bytes size) const { return free && range.length() >= size; }
  };
  using Map = std::map<std::int64_t, Chunk>;

  void name(Grant& grant, Range range, StreamId on) {
    grant.chunk = ChunkId{kFlaw == Flaw::repeats_ids ? next_id_++ % 4 : next_id_++};
    ids_[grant.chunk.index] = range;
    grant.range = range;
    waits_ = running(chunks_.at(range.begin.count).uses);
    std::erase_if(waits_, [&](Tick tick) { return tick.stream == on; });
    if (kFlaw == Flaw::forgets_one_wait && waits_.size() > 1) waits_.pop_back();
    grant.waits = waits_;
    if (!waits_.empty()) grant.granted = GrantClass::orderable;
    if (kFlaw == Flaw::lies_about_class && waits_.empty()) grant.granted = GrantClass::complete;
    if (kFlaw == Flaw::misaligns) grant.range.begin += 1_B;
    if (kFlaw == Flaw::skips_commit) grant.commit = {};
    ++stats_.grants[static_cast<std::size_t>(grant.granted)];
    stats_.waits_owed += static_cast<std::int64_t>(waits_.size());
    stats_.peak_live = std::max(stats_.peak_live, live());
    stats_.peak_reserved = std::max(stats_.peak_reserved, reserved());
  }

  // Splits the chunk; the flawed one leaves a piece of what it granted in the rest.
  Range take(Map::iterator at, Bytes size) {
    Chunk& chunk = at->second;
    const Range granted{chunk.range.begin, chunk.range.begin + size};
    const Bytes rest = kFlaw == Flaw::overlaps ? granted.end - options_.alignment : granted.end;
    const Range remainder{rest, chunk.range.end};
    chunk.free = false;
    chunk.range.end = granted.end;
    if (granted.end < remainder.end) chunks_[rest.count] = {remainder, true, chunk.uses};
    return granted;
  }

  Map::iterator grow(Bytes size, Range& commit) {
    const Bytes end = chunks_.empty() ? Bytes{} : chunks_.rbegin()->second.range.end;
    commit = {end, end + round_up(size, options_.granule)};
    const bool allowed = reserved() + commit.length() <= limit_ || kFlaw == Flaw::exceeds_limit;
    if (!allowed || commit.end > options_.address_space) return chunks_.end();
    return chunks_.insert({end.count, Chunk{commit, true, {}}}).first;
  }

  void release(Range range, const Clock& uses) {
    auto at = chunks_.insert_or_assign(range.begin.count, Chunk{range, true, uses}).first;
    if (const auto next = std::next(at); next != chunks_.end()) join(at, next);
    if (at != chunks_.begin()) join(std::prev(at), at);
  }

  void join(Map::iterator left, Map::iterator right) {
    if (!left->second.free || !right->second.free || left->second.range.end != right->second.range.begin) return;
    left->second.range.end = right->second.range.end;
    for (std::size_t s = 0; s < kMaxStreams; ++s) {
      std::uint64_t& mine = left->second.uses[s];
      const std::uint64_t other = right->second.uses[s];
      mine = kFlaw == Flaw::merges_with_minimum ? std::min(mine, other) : std::max(mine, other);
    }
    chunks_.erase(right);
  }

  // Free memory given back: cut out of its chunk.
  void drop(Range range) {
    if (range.empty()) return;
    auto at = std::prev(chunks_.upper_bound(range.begin.count));
    const Chunk chunk = at->second;
    chunks_.erase(at);
    if (chunk.range.begin < range.begin)
      chunks_[chunk.range.begin.count] = {{chunk.range.begin, range.begin}, true, chunk.uses};
    if (range.end < chunk.range.end) chunks_[range.end.count] = {{range.end, chunk.range.end}, true, chunk.uses};
  }

  std::vector<Tick> running(const Clock& uses) const {
    std::vector<Tick> ticks;
    for (std::uint32_t s = 0; s < kMaxStreams; ++s) {
      if (uses[s] > done_[s]) ticks.push_back({StreamId{s}, uses[s]});
    }
    return ticks;
  }

  template <class Which>
  Bytes sum(Which which) const {
    Bytes total;
    for (const auto& [begin, chunk] : chunks_) total += which(chunk) ? chunk.range.length() : Bytes{};
    return total;
  }

  PoolOptions options_;
  Bytes limit_;
  Map chunks_;
  std::unordered_map<std::uint32_t, Range> ids_;
  std::uint32_t next_id_ = 0;
  std::vector<Tick> waits_;
  Clock done_{}, heard_{};
  PoolStats stats_;
};

}  // namespace spillway::shadow
