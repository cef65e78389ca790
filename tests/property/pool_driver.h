// Plays a random episode on a pool and lets the shadow judge every answer.
//
// The driver is a caller as pool.h wants it: it orders streams before they share a chunk, waits what a grant owes
// before the first access, tells the pool what it learned, and synchronises before it decommits. Same episode, same
// calls. The pool's type is a parameter, so that the oracle itself can be tried on a simple pool and on pools broken on
// purpose.
#pragma once

#include <exception>
#include <limits>
#include <utility>

#include "pool_audit.h"
#include "pool_dice.h"
#include "shadow_pool.h"

namespace spillway::shadow {

enum class Pattern : std::uint8_t {
  random,  // a steady number of chunks, freed in any order
  stack,   // grow and shrink again, last in first out: forward and backward
  comb,    // fill, free every other chunk, fill with other sizes
};

struct Episode {
  std::uint64_t seed = 1;
  std::int64_t ops = 1000;
  std::size_t streams = 1;
  PoolOptions pool;
  Sizes sizes = Sizes::mixed;
  Bytes largest;
  Pattern pattern = Pattern::random;
  std::size_t live_target = 50;
  bool audit = false;                  // the linear laws too, on every call; for pools without slabs
  std::uint64_t learns = 60;           // in a thousand operations, how many report a tick as done
  bool device_refuses = false;         // now and then
  bool vague_positions = false;        // waits are reported with positions too high, which is safe
  bool drops_orderable_waits = false;  // a broken caller, to see that the shadow sees it
};

struct Findings {
  std::int64_t ops = 0, grants = 0, refusals = 0, orderable = 0;
  std::int64_t exact_judgements = 0;  // see PoolAudit
  std::uint64_t digest = 0;           // of every grant, in order
  std::int64_t violation_count = 0;
  std::vector<Violation> violations;
};

template <class PoolType>
class PoolDriver {
 public:
  explicit PoolDriver(const Episode& episode)
      : episode_(episode),
        dice_(episode.seed),
        sizes_(episode.sizes, episode.largest, dice_),
        pool_(episode.pool),
        shadow_(episode.pool, episode.streams) {
    if (episode.audit) audit_.emplace(shadow_);
    shadow_.told_is_exact = !episode.vague_positions;
  }

  Findings run() {
    try {
      while (findings_.ops < episode_.ops && shadow_.violation_count() == 0) {
        step();
        if (++findings_.ops % 1000 == 0) pool_.verify();
      }
      if (shadow_.violation_count() == 0) drain();
    } catch (const std::exception& error) {
      shadow_.require(false, "the pool does not throw", [&] { return std::string(error.what()); });
    }
    if (audit_) findings_.exact_judgements = audit_->exact_judgements();
    findings_.violation_count = shadow_.violation_count();
    findings_.violations = shadow_.violations();
    return findings_;
  }

 private:
  struct Live {
    ChunkId chunk;
    StreamId owner;
    Clock uses{};
  };

  void step() {
    const std::uint64_t draw = dice_.below(1000);
    if (draw < episode_.learns) return learn_done();
    if (draw < 100) return wait_somewhere();
    if (draw < 150) return use_elsewhere();
    if (draw < 160) return check_stats();
    if (draw < 165) return try_window(sizes_.draw(dice_), dice_.stream(streams()));
    if (draw < 168) return trim();
    if (draw < 169) return change_limit();
    if (draw < 180) return check_pending();
    allocate_or_free();
  }

  void allocate_or_free() {
    if (rising()) {
      const Bytes size = sizes_.draw(dice_);
      const StreamId on = dice_.stream(streams());
      if (!allocate(size, on)) make_room(size, on);
    } else if (!live_.empty()) {
      free_at(pick());
    }
  }

  bool rising() {
    if (episode_.pattern == Pattern::random) return dice_.below(2 * episode_.live_target) >= live_.size();
    if (live_.size() >= episode_.live_target) rising_ = false;
    if (live_.size() <= (episode_.pattern == Pattern::comb ? episode_.live_target / 2 : 0)) rising_ = true;
    return rising_;
  }

  std::size_t pick() {
    if (episode_.pattern == Pattern::stack && !dice_.percent(10)) return live_.size() - 1;
    if (episode_.pattern == Pattern::comb) return comb_ = (comb_ + 2) % live_.size();
    return dice_.below(live_.size());
  }

  bool allocate(Bytes size, StreamId on) {
    const std::optional<Grant> answer = pool_.try_allocate(size, on);
    if (!answer) {
      ++findings_.refusals;
      shadow_.refuse();
      if (audit_) audit_->judge_refusal(size);
      return false;
    }
    const std::vector<Tick> owed(answer->waits.begin(), answer->waits.end());
    Grant grant = *answer;
    grant.waits = owed;
    ++findings_.grants;
    findings_.digest =
        Dice(findings_.digest ^ static_cast<std::uint64_t>(grant.range.begin.count) ^ grant.chunk.index).next();
    findings_.orderable += grant.granted == GrantClass::orderable ? 1 : 0;
    const bool broken = episode_.drops_orderable_waits && grant.granted == GrantClass::orderable;
    const std::vector<Tick> waited = broken ? std::vector<Tick>{} : owed;
    if (audit_) audit_->judge_grant(size, on, grant);
    shadow_.grant(size, on, grant, waited);
    if (audit_) audit_->take(grant);
    if (episode_.device_refuses && !grant.commit.empty() && dice_.percent(5)) return abandon(grant);
    for (const Tick wait : waited) order_after(on, wait, /*tell=*/!dice_.percent(3));
    live_.push_back({grant.chunk, on, {}});
    if (!dice_.percent(5)) raise(live_.back().uses, shadow_.record(on));
    return true;
  }

  bool abandon(const Grant& grant) {
    pool_.abandon(grant);
    shadow_.abandon(grant.chunk);
    if (audit_) audit_->abandon(grant);
    return true;
  }

  void free_at(std::size_t at) {
    Live live = std::exchange(live_[at], live_.back());
    live_.pop_back();
    if (dice_.percent(50) && live.uses[live.owner.index] > 0) raise(live.uses, shadow_.record(live.owner));
    std::vector<Tick> last_uses;
    for (std::uint32_t s = 0; s < streams(); ++s) {
      if (live.uses[s] > 0) last_uses.push_back({StreamId{s}, live.uses[s]});
    }
    if (audit_) audit_->free(live.chunk, pool_.range(live.chunk), last_uses);
    shadow_.free(live.chunk, last_uses);
    pool_.free(live.chunk, last_uses);
  }

  // After a refusal: one of the ways out, each of which must lead to a grant.
  void make_room(Bytes size, StreamId on) {
    rising_ = false;
    const std::uint64_t way = dice_.below(10);
    if (way < 2) return try_window(size, on);
    if (way < 4) return try_remap(size, on);
    for (std::uint64_t i = dice_.below(4); i > 0 && !live_.empty(); --i) free_at(pick());
  }

  void try_window(Bytes size, StreamId on) {
    const std::uint64_t salt = dice_.next();
    const auto cost = [&](ChunkId chunk) {
      const std::uint64_t draw = Dice(salt ^ chunk.index).below(100);
      if (draw < 5) return draw < 3 ? -1.0 : std::numeric_limits<double>::infinity();
      return static_cast<double>(draw);
    };
    const std::optional<Window> window = pool_.find_window(size, cost);
    if (window) check_window(shadow_, size, cost, *window);
    if (audit_) judge_window(shadow_, size, cost, window);
    if (!window || dice_.percent(50)) return;
    for (const ChunkId chunk : window->evict) {
      const auto at = std::ranges::find(live_, chunk, &Live::chunk);
      if (at != live_.end()) free_at(static_cast<std::size_t>(at - live_.begin()));
    }
    must_allocate(size, on, "an evicted window is a hole");
  }

  void try_remap(Bytes size, StreamId on) {
    const std::optional<Remap> remap = pool_.plan_remap(size);
    if (!remap) {
      if (audit_) audit_->judge_no_remap(size);
      return;
    }
    if (dice_.percent(20)) return;
    shadow_.remap(*remap);
    for (const Tick tick : remap->wait_for) shadow_.finish(tick);
    if (audit_) {
      for (const Range range : remap->decommit) audit_->remap_decommit(range);
      audit_->remap_commit(remap->commit);
    }
    pool_.apply_remap(*remap);
    for (const Tick tick : remap->wait_for) pool_.note_done(tick);
    must_allocate(size, on, "a remap makes a hole");
  }

  void must_allocate(Bytes size, StreamId on, const char* law) {
    shadow_.require(allocate(size, on), law, [&] { return fmt::format("{} bytes refused", size.count); });
  }

  void trim() {
    const std::vector<Range> ranges = pool_.trim();
    shadow_.trim(ranges);
    if (!audit_) return;
    for (const Range range : ranges) audit_->decommit(range);
    audit_->judge_trim();
  }

  void check_stats() {
    const PoolStats stats = pool_.stats();
    shadow_.compare(stats);
    if (audit_) audit_->judge_largest_free(stats.largest_free);
  }

  void change_limit() {
    const Bytes full = episode_.pool.limit;
    const Bytes limit = dice_.percent(60) ? full : Bytes{dice_.between(full.count / 2, full.count)};
    pool_.set_limit(limit);
    shadow_.set_limit(limit);
    shadow_.require(pool_.limit() == limit, "the limit is what was set", [] { return std::string(); });
  }

  void learn_done() {
    const StreamId stream = dice_.stream(streams());
    const std::uint64_t newest = shadow_.order.newest(stream).value;
    tell_done({stream, newest - std::min(newest, dice_.below(30))});
  }

  void wait_somewhere() {
    const StreamId waiter = dice_.stream(streams()), stream = dice_.stream(streams());
    const std::uint64_t newest = shadow_.order.newest(stream).value;
    if (waiter == stream || newest == 0) return;
    order_after(waiter, {stream, newest - std::min(newest - 1, dice_.below(10))}, /*tell=*/dice_.percent(80));
  }

  // Another stream uses a live chunk, properly after its owner got it.
  void use_elsewhere() {
    if (live_.empty()) return;
    Live& live = live_[dice_.below(live_.size())];
    const StreamId stream = dice_.stream(streams());
    if (stream != live.owner) order_after(stream, shadow_.record(live.owner), /*tell=*/dice_.percent(80));
    raise(live.uses, shadow_.record(stream));
  }

  void order_after(StreamId waiter, Tick tick, bool tell) {
    if (!shadow_.order.exists(tick)) return;  // a wrong wait, already reported
    const std::uint64_t newest = shadow_.order.newest(waiter).value;
    shadow_.wait(waiter, tick, tell);
    if (tell) pool_.note_wait(waiter, tick, newest + (episode_.vague_positions ? dice_.below(3) : 0));
  }

  void tell_done(Tick tick) {
    if (tick.value == 0) return;
    shadow_.finish(tick);
    pool_.note_done(tick);
  }

  void check_pending() {
    const StreamId stream = dice_.stream(streams());
    shadow_.check_pending(stream, pool_.pending(stream));
  }

  // Everything freed and done: the memory is one block per committed stretch, and trimming gives it all back.
  void drain() {
    while (!live_.empty()) free_at(live_.size() - 1);
    for (std::uint32_t s = 0; s < streams(); ++s) tell_done(shadow_.order.newest(StreamId{s}));
    pool_.verify();
    Bytes largest;
    for (const auto& [begin, end] : shadow_.committed().ranges()) largest = std::max(largest, Bytes{end - begin});
    if (largest > Bytes{}) {
      must_allocate(largest, StreamId{0}, "freeing everything gives one block");
      if (!live_.empty()) free_at(0);
      tell_done(shadow_.order.newest(StreamId{0}));
    }
    trim();
    const bool empty = pool_.reserved() == Bytes{} && shadow_.reserved() == Bytes{} && pool_.live() == Bytes{};
    shadow_.require(empty, "everything freed and trimmed leaves nothing",
                    [&] { return fmt::format("reserved {}", pool_.reserved().count); });
    shadow_.compare(pool_.stats());
    pool_.verify();
  }

  [[nodiscard]] std::size_t streams() const { return episode_.streams; }

  Episode episode_;
  Dice dice_;
  SizeMix sizes_;
  PoolType pool_;
  ShadowPool shadow_;
  std::optional<PoolAudit> audit_;
  std::vector<Live> live_;
  bool rising_ = true;
  std::size_t comb_ = 0;
  Findings findings_;
};

// One of all the kinds of episodes, drawn by the seed. Those with an audit are small and short, because what can be
// known of the free chunks from outside gets less with time. The limit is tight or loose beside what the episode would
// hold.
inline Episode random_episode(std::size_t streams, std::uint64_t seed) {
  Dice dice(seed);
  Episode episode{.seed = seed, .streams = streams};
  episode.audit = dice.percent(80);
  episode.ops = episode.audit ? dice.between(200, 2000) : 20'000;
  episode.sizes = static_cast<Sizes>(dice.below(5));
  episode.pattern = static_cast<Pattern>(dice.below(3));
  episode.learns = dice.percent(50) ? 60 : dice.below(10);
  episode.device_refuses = dice.percent(15);
  episode.vague_positions = !episode.audit && dice.percent(20);
  episode.live_target = episode.audit ? 4 + dice.below(40) : 20 + dice.below(1500);
  episode.largest = episode.sizes == Sizes::small ? 4_KiB : Bytes{std::int64_t{1} << dice.between(13, 23)};
  PoolOptions& pool = episode.pool;
  pool.granule = Bytes{std::int64_t{1} << dice.between(13, 21)};
  pool.alignment = dice.percent(80) ? 512_B : 256_B;
  const Bytes held = episode.largest * static_cast<std::int64_t>(episode.live_target) / 8;
  pool.limit = round_up(held * dice.between(1, 6), pool.granule) + pool.granule + Bytes{dice.between(0, 1) * 1000};
  pool.address_space = pool.granule * (pool.limit / pool.granule) * dice.between(1, 4);
  pool.slab = episode.audit || dice.percent(30) ? 0_B : pool.granule * dice.between(1, 2);
  return episode;
}

}  // namespace spillway::shadow
