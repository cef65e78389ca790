// The oracle of the pool: what must be true of every answer, derived from pool.h alone.
//
// The shadow is told everything the caller knows (every grant, free, tick, wait) and keeps it naively: live ranges, the
// committed ranges, and for every byte the uses that may still be running on some stream. It predicts nothing about
// placement; it says which answers are wrong. A broken law is a value (`violations`), so that a test may expect one.
//
//   sum of live ranges + free bytes == sum of committed ranges == reserved
//
// Each call costs O(log n). The laws that need a look at the whole pool are in pool_audit.h.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "pool/pool.h"
#include "pool_byte_uses.h"
#include "pool_order.h"
#include "pool_ranges.h"

namespace spillway::shadow {

struct Violation {
  std::string law;
  std::string detail;
};

// A live grant as its owner sees it.
struct Holding {
  ChunkId chunk;
  Range range;
  Range commit;
  Bytes asked;
  StreamId owner;
};

inline std::string to_text(Range range) { return fmt::format("[{:#x}, {:#x})", range.begin.count, range.end.count); }
inline std::string to_text(Tick tick) { return fmt::format("{}@{}", tick.stream.index, tick.value); }

class ShadowPool {
 public:
  ShadowPool(const PoolOptions& options, std::size_t streams) : order(streams), told(streams), options_(options) {}

  StreamOrder order;          // the truth
  StreamOrder told;           // what the pool has been told: the same ticks, perhaps fewer waits
  bool told_is_exact = true;  // false: it knows even less, because positions were given too high

  [[nodiscard]] const std::vector<Violation>& violations() const { return violations_; }
  [[nodiscard]] std::int64_t violation_count() const { return violation_count_; }
  [[nodiscard]] const PoolOptions& options() const { return options_; }
  [[nodiscard]] const RangeSet& committed() const { return committed_; }
  [[nodiscard]] const std::map<std::int64_t, Holding>& live() const { return live_; }
  [[nodiscard]] const ByteUses& uses() const { return uses_; }
  [[nodiscard]] Bytes limit() const { return options_.limit; }
  [[nodiscard]] Bytes reserved() const { return committed_.total(); }
  [[nodiscard]] const Holding* find(ChunkId chunk) const {
    const auto at = begins_.find(chunk.index);
    return at == begins_.end() ? nullptr : &live_.at(at->second);
  }

  // `detail` is called only when the law is broken. At most a few are kept in words.
  template <class Detail>
  bool require(bool holds, const char* law, Detail detail) {
    if (holds) [[likely]]
      return true;
    if (violations_.size() < 20) violations_.push_back({law, detail()});
    ++violation_count_;
    return false;
  }

  // A grant as the pool gave it; `waits` is what the owner will really wait for.
  void grant(Bytes asked, StreamId on, const Grant& grant, std::span<const Tick> waits) {
    check_shape(asked, grant);
    check_commit(grant);
    check_order(on, grant, waits);
    check_class(on, grant);
    const Holding holding{grant.chunk, grant.range, grant.commit, asked, on};
    if (!check_alone(holding)) return;
    live_.emplace(grant.range.begin.count, holding);
    begins_.emplace(grant.chunk.index, grant.range.begin.count);
    live_bytes_ += grant.range.length();
    peak_live_ = std::max(peak_live_, live_bytes_);
    peak_reserved_ = std::max(peak_reserved_, reserved());
    ++grants_[static_cast<std::size_t>(grant.granted)];
    waits_owed_ += static_cast<std::int64_t>(grant.waits.size());
  }

  void refuse() { ++refusals_; }

  // The device refused the memory: the grant never was, its commit included.
  void abandon(ChunkId chunk) {
    const Holding holding = remove(chunk);
    require(committed_.remove(holding.commit), "abandoned memory was committed",
            [&] { return to_text(holding.commit); });
    ++abandoned_;
  }

  // Older uses than the owner's stay remembered unless the given last uses are ordered after them; of these, those that
  // no other is ordered after.
  void free(ChunkId chunk, std::span<const Tick> last_uses) {
    const Holding holding = remove(chunk);
    const auto is_last = [&](Tick tick) {
      const auto later = [&](Tick other) { return other.stream != tick.stream && order.covers(other, tick); };
      return !order.done(tick) && std::ranges::none_of(last_uses, later);
    };
    uses_.change(holding.range, [&](Clock& uses) {
      for (std::uint32_t s = 0; s < order.streams(); ++s) {
        const Tick old{StreamId{s}, uses[s]};
        const auto covers = [&](Tick last) { return order.covers(last, old); };
        if (order.done(old) || std::ranges::any_of(last_uses, covers)) uses[s] = 0;
      }
      for (const Tick last : last_uses) {
        if (is_last(last)) raise(uses, last);
      }
    });
    for (const Tick last : last_uses) raise(heard_, last);
  }

  // The ticks of the streams, and what is learned about them.
  Tick record(StreamId on) {
    told.record(on);
    return order.record(on);
  }
  void wait(StreamId waiter, Tick tick, bool tell) {
    order.wait(waiter, tick);
    if (!tell) return;
    told.wait(waiter, tick);
    raise(heard_, tick);
  }
  void finish(Tick tick) {
    order.finish(tick);
    told.finish(tick);
    raise(heard_, tick);
  }

  void trim(std::span<const Range> decommitted) {
    for (const Range range : decommitted) decommit(range, {});
  }

  void remap(const Remap& remap) {
    const Bytes before = reserved();
    for (const Range range : remap.decommit) decommit(range, remap.wait_for);
    add_commit(remap.commit);
    require(reserved() <= std::max(before, limit()), "a remap keeps the limit",
            [&] { return fmt::format("reserved {} limit {}", reserved().count, limit().count); });
    peak_reserved_ = std::max(peak_reserved_, reserved());
  }

  void set_limit(Bytes limit) { options_.limit = limit; }

  void compare(const PoolStats& stats) {
    const auto equal = [this](const char* what, std::int64_t pool, std::int64_t shadow) {
      require(pool == shadow, "statistics agree",
              [&] { return fmt::format("{}: pool {} shadow {}", what, pool, shadow); });
    };
    equal("live", stats.live.count, live_bytes_.count);
    equal("reserved", stats.reserved.count, reserved().count);
    equal("live_chunks", stats.live_chunks, static_cast<std::int64_t>(live_.size()));
    equal("refusals", stats.refusals, refusals_);
    if (options_.slab == Bytes{}) {
      require((stats.free_chunks > 0) == (live_bytes_ < reserved()), "some free chunk exists when bytes are free",
              [&] { return fmt::format("free_chunks {}", stats.free_chunks); });
    }
    if (abandoned_ > 0) return;  // whether a grant that never was counts below is left open
    equal("peak_live", stats.peak_live.count, peak_live_.count);
    equal("peak_reserved", stats.peak_reserved.count, peak_reserved_.count);
    equal("waits_owed", stats.waits_owed, waits_owed_);
    for (std::size_t c = 0; c < grants_.size(); ++c) equal("grants by class", stats.grants[c], grants_[c]);
  }

  void check_pending(StreamId stream, std::optional<Tick> pending) {
    const Tick heard{stream, heard_[stream.index]};
    const auto text = [&] { return fmt::format("{} heard {}", to_text(pending.value_or(Tick{})), to_text(heard)); };
    if (!pending) {
      require(order.done(heard), "a tick that is not done is pending", text);
    } else {
      require(order.exists(*pending) && pending->stream == stream && pending->value >= heard.value,
              "pending is the newest tick heard of", text);
      require(!told_is_exact || !told.done(*pending), "pending is not known to be done", text);
    }
  }

  // Whether work of `on` may touch the bytes once it waited for `waits`: the uses it would race with, if any.
  [[nodiscard]] std::optional<Tick> race(StreamId on, Range range, std::span<const Tick> waits) const {
    std::optional<Tick> found;
    uses_.each(range, [&](Range, const Clock& uses) {
      for (std::uint32_t s = 0; s < order.streams(); ++s) {
        const Tick use{StreamId{s}, uses[s]};
        const auto covers = [&](Tick wait) { return order.exists(wait) && order.covers(wait, use); };
        if (!order.done(use) && !order.ordered(on, use) && std::ranges::none_of(waits, covers)) found = use;
      }
    });
    return found;
  }

 private:
  void check_shape(Bytes asked, const Grant& grant) {
    const Range range = grant.range;
    const auto text = [&] { return fmt::format("{} for {} bytes", to_text(range), asked.count); };
    require(range.length() >= asked, "a grant has at least the size asked for", text);
    require(range.begin % options_.alignment == Bytes{} && range.length() % options_.alignment == Bytes{},
            "a grant begins and is sized in multiples of the alignment", text);
    require(Range{{}, options_.address_space}.contains(range), "a grant lies in the arena", text);
  }

  void check_commit(const Grant& grant) {
    if (!grant.commit.empty()) {
      add_commit(grant.commit);
      require(reserved() <= limit(), "reserved() never exceeds the limit",
              [&] { return fmt::format("reserved {} limit {}", reserved().count, limit().count); });
    }
    require(committed_.contains(grant.range), "a grant lies in committed memory", [&] { return to_text(grant.range); });
  }

  void check_order(StreamId on, const Grant& grant, std::span<const Tick> waits) {
    for (const Tick wait : grant.waits) check_wait(on, grant, wait);
    const std::optional<Tick> raced = race(on, grant.range, waits);
    require(!raced, "the waits order every earlier use of the bytes", [&] {
      return fmt::format("{} granted on {} races with {}", to_text(grant.range), on.index, to_text(*raced));
    });
  }

  void check_wait(StreamId on, const Grant& grant, Tick wait) {
    const auto text = [&] { return fmt::format("{} at {} on {}", to_text(wait), to_text(grant.range), on.index); };
    if (!require(order.exists(wait), "a wait names a recorded tick", text) || !told_is_exact) return;
    require(!told.done(wait) && !told.ordered(on, wait), "no wait is owed for what is done or ordered", text);
    const auto implies = [&](Tick other) { return other != wait && order.exists(other) && told.covers(other, wait); };
    require(std::ranges::none_of(grant.waits, implies), "no wait implies another", text);
    require(std::ranges::count(grant.waits, wait) == 1, "a wait is owed once", text);
  }

  // The class may be worse than the truth (the pool knows less), never better.
  void check_class(StreamId on, const Grant& grant) {
    const auto text = [&] {
      return fmt::format("class {} on {} at {}", static_cast<int>(grant.granted), on.index, to_text(grant.range));
    };
    const bool owes = grant.granted == GrantClass::orderable;
    require(grant.waits.empty() != owes, "waits are owed in class orderable and in no other", text);
    require(grant.granted != GrantClass::fresh || !grant.commit.empty(), "class fresh commits memory", text);
    if (grant.granted != GrantClass::same_stream && grant.granted != GrantClass::complete) return;
    const bool same = grant.granted == GrantClass::same_stream;
    uses_.each(grant.range, [&](Range, const Clock& uses) {
      for (std::uint32_t s = 0; s < order.streams(); ++s) {
        const Tick use{StreamId{s}, uses[s]};
        require(order.done(use) || (same && use.stream == on), "the class of a grant is true", text);
      }
    });
  }

  bool check_alone(const Holding& holding) {
    const auto after = live_.lower_bound(holding.range.begin.count);
    const bool right = after == live_.end() || !after->second.range.overlaps(holding.range);
    const bool left = after == live_.begin() || !std::prev(after)->second.range.overlaps(holding.range);
    return require(holding.chunk.valid() && !begins_.contains(holding.chunk.index), "a chunk id names one live chunk",
                   [&] { return fmt::format("{}", holding.chunk.index); }) &&
           require(left && right, "no two live grants overlap", [&] { return to_text(holding.range); });
  }

  Holding remove(ChunkId chunk) {
    const auto begin = begins_.find(chunk.index);
    if (begin == begins_.end()) return {};  // a grant that was wrong from the start
    const auto at = live_.find(begin->second);
    const Holding holding = at->second;
    live_.erase(at);
    begins_.erase(begin);
    live_bytes_ -= holding.range.length();
    return holding;
  }

  void add_commit(Range range) {
    const auto text = [&] { return to_text(range); };
    require(whole_granules(range), "memory is committed in whole granules", text);
    require(Range{{}, options_.address_space}.contains(range), "memory is committed inside the arena", text);
    require(committed_.add(range), "memory is committed once", text);
  }

  void decommit(Range range, std::span<const Tick> waited) {
    const auto text = [&] { return to_text(range); };
    require(!range.empty() && whole_granules(range), "memory is decommitted in whole granules", text);
    const auto after = live_.lower_bound(range.begin.count);
    const bool right = after == live_.end() || !after->second.range.overlaps(range);
    const bool left = after == live_.begin() || !std::prev(after)->second.range.overlaps(range);
    require(left && right, "no live chunk is decommitted", text);
    uses_.each(range, [&](Range, const Clock& uses) {
      for (std::uint32_t s = 0; s < order.streams(); ++s) {
        const Tick use{StreamId{s}, uses[s]};
        const auto covers = [&](Tick wait) { return order.exists(wait) && order.covers(wait, use); };
        require(order.done(use) || std::ranges::any_of(waited, covers), "memory in use is not decommitted",
                [&] { return fmt::format("{} still used by {}", to_text(range), to_text(use)); });
      }
    });
    require(committed_.remove(range), "only committed memory is decommitted", text);
    uses_.erase(range);
  }

  [[nodiscard]] bool whole_granules(Range range) const {
    return range.begin % options_.granule == Bytes{} && range.end % options_.granule == Bytes{};
  }

  PoolOptions options_;
  RangeSet committed_;
  std::map<std::int64_t, Holding> live_;  // by begin
  std::unordered_map<std::uint32_t, std::int64_t> begins_;
  ByteUses uses_;
  Clock heard_{};
  Bytes live_bytes_, peak_live_, peak_reserved_;
  std::array<std::int64_t, kGrantClassCount> grants_{};
  std::int64_t waits_owed_ = 0, refusals_ = 0, abandoned_ = 0;
  std::vector<Violation> violations_;
  std::int64_t violation_count_ = 0;
};

}  // namespace spillway::shadow
