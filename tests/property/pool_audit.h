// The laws of the pool that need a look at all of it: best class, best fit, least growth, no needless refusal.
//
// What is demanded rests on chunks whose bounds and last uses follow from pool.h (pool_free_chunks.h), and on whole
// runs of free memory, which any pool can see. For pools without slabs, which hide free memory on purpose. Linear in
// the number of chunks: for small pools.
#pragma once

#include <tuple>
#include <unordered_map>
#include <utility>

#include "pool_free_chunks.h"
#include "pool_windows.h"
#include "shadow_pool.h"

namespace spillway::shadow {

// The class of last uses for a request on `on`, by the letter of pool.h.
[[nodiscard]] inline GrantClass class_of(const Clock& uses, StreamId on, const StreamOrder& told) {
  bool others_done = true, complete = true, ordered = true;
  for (std::uint32_t s = 0; s < told.streams(); ++s) {
    const Tick use{StreamId{s}, uses[s]};
    const bool own = use.stream == on, done = told.done(use);
    others_done = others_done && (own || done);
    complete = complete && done;
    ordered = ordered && (own || done || told.ordered(on, use));
  }
  if (uses[on.index] > 0 && others_done) return GrantClass::same_stream;
  if (complete) return GrantClass::complete;
  return ordered ? GrantClass::ordered : GrantClass::orderable;
}

class PoolAudit {
 public:
  explicit PoolAudit(ShadowPool& shadow) : shadow_(shadow), chunks_(shadow.told) {}

  // How often an answer could be held against an exact chunk: a test of the audit, not of the pool.
  [[nodiscard]] std::int64_t exact_judgements() const { return exact_judgements_; }

  // Call before the shadow books the grant.
  void judge_grant(Bytes asked, StreamId on, const Grant& grant) {
    const std::vector<Run> runs = chunks_.runs();
    const Bytes size = round_up(asked, shadow_.options().alignment);
    const auto [best, place] = best_offer(runs, size, on);
    shadow_.require(grant.granted <= best, "the best class that fits is served", [&, best = best, place = place] {
      return fmt::format("{} bytes on {}: class {} granted at {}, class {} was there at {}", asked.count, on.index,
                         static_cast<int>(grant.granted), to_text(grant.range), static_cast<int>(best), to_text(place));
    });
    if (grant.granted == GrantClass::fresh) {
      const std::optional<Bytes> least = least_growth(runs, size, on);
      shadow_.require(!least || grant.commit.length() <= *least, "as little as will do is committed", [&] {
        return fmt::format("{} bytes: {} committed, {} would do", asked.count, grant.commit.length().count,
                           least->count);
      });
    }
    if (const FreeChunk* taken = chunks_.exact_around(grant.range)) judge_choice(runs, on, grant, *taken);
  }

  // Empty is the right answer only when neither free memory nor growth under the limit holds the size in one stretch.
  void judge_refusal(Bytes asked) {
    const Bytes size = round_up(asked, shadow_.options().alignment);
    const std::vector<Run> runs = chunks_.runs();
    const auto text = [&] { return fmt::format("{} bytes refused", asked.count); };
    const auto fits = [&](const Run& run) { return extent(run).length() >= size; };
    shadow_.require(std::ranges::none_of(runs, fits), "a size that fits a free run is not refused", text);
    shadow_.require(!least_growth(runs, size, std::nullopt), "a size that fits under the limit is not refused", text);
  }

  // Enough whole free granules, and addresses to put them: a remap must be possible.
  void judge_no_remap(Bytes asked) {
    const Bytes granule = shadow_.options().granule;
    const Bytes size = round_up(asked, granule);
    Bytes movable = growth_room(shadow_), gap_length;
    for (const Run& run : chunks_.runs()) movable += whole_granules(extent(run)).length();
    each_gap(shadow_, [&](Range gap) { gap_length = std::max(gap_length, gap.length()); });
    shadow_.require(movable < size || gap_length < size || shadow_.reserved() > shadow_.limit(),
                    "a remap is found where free granules suffice",
                    [&] { return fmt::format("{} bytes, {} movable", asked.count, movable.count); });
  }

  void judge_largest_free(Bytes largest_free) {
    Bytes longest;
    for (const Run& run : chunks_.runs()) longest = std::max(longest, extent(run).length());
    shadow_.require(longest == largest_free, "largest_free is the longest free stretch",
                    [&] { return fmt::format("pool {} shadow {}", largest_free.count, longest.count); });
  }

  // After a trim was booked: no whole granule is left that is surely free and done.
  void judge_trim() {
    for (const Run& run : chunks_.runs()) {
      Range done{};
      for (const FreeChunk& chunk : run) {
        if (chunk.murky || !chunks_.complete(chunk.uses)) continue;
        done = done.end == chunk.range.begin ? Range{done.begin, chunk.range.end} : chunk.range;
        shadow_.require(whole_granules(done).empty(), "a trim gives back every whole granule that is free and done",
                        [&] { return to_text(done); });
      }
    }
  }

  // What the shadow books.
  void take(const Grant& grant) {
    chunks_.grow(grant.commit);
    granted_with_[grant.chunk.index] = chunks_.take(grant.range);
  }
  // Without last uses, those it was granted with stand.
  void free(ChunkId chunk, Range range, std::span<const Tick> last_uses) {
    const auto before = granted_with_.extract(chunk.index);
    const FreeChunk was = before ? before.mapped() : FreeChunk{.murky = true};
    if (last_uses.empty()) return chunks_.add(range, was.uses, was.murky);
    chunks_.add(range, remembered(last_uses), /*murky=*/false);
  }
  void abandon(const Grant& grant) {
    const FreeChunk was = granted_with_.extract(grant.chunk.index).mapped();
    if (!grant.commit.contains(grant.range)) chunks_.add(grant.range, was.uses, /*murky=*/true);
    chunks_.cut(grant.commit);
  }
  void decommit(Range range) { chunks_.cut(range); }
  // What a remap waited for is done for the pool from then on, so what it left beside the granules is no longer exact.
  void remap_decommit(Range range) {
    chunks_.blur_around(range);
    chunks_.cut(range);
  }
  void remap_commit(Range range) { chunks_.add(range, {}, /*murky=*/false); }

 private:
  // Less what is done, less what another of them implies.
  [[nodiscard]] Clock remembered(std::span<const Tick> last_uses) const {
    Clock uses{};
    for (const Tick tick : last_uses) {
      const auto implies = [&](Tick other) { return other.stream != tick.stream && shadow_.told.covers(other, tick); };
      if (!shadow_.told.done(tick) && std::ranges::none_of(last_uses, implies)) raise(uses, tick);
    }
    return uses;
  }

  // The class the pool can and must serve at least, and where.
  [[nodiscard]] std::pair<GrantClass, Range> best_offer(const std::vector<Run>& runs, Bytes size, StreamId on) const {
    std::pair best{least_growth(runs, size, on) ? GrantClass::fresh : GrantClass::orderable, Range{}};
    for (const Run& run : runs) {
      if (longest_without_waits(run, on) >= size) best = std::min(best, {GrantClass::ordered, extent(run)});
      for (const FreeChunk& chunk : run) {
        if (chunk.murky || chunk.range.length() < size) continue;
        best = std::min(best, {class_of(chunk.uses, on, shadow_.told), chunk.range});
      }
    }
    return best;
  }

  // Of two exact chunks in one class the smaller wins, then the lower; and the class is that of the chunk.
  void judge_choice(const std::vector<Run>& runs, StreamId on, const Grant& grant, const FreeChunk& taken) {
    ++exact_judgements_;
    shadow_.require(
        class_of(taken.uses, on, shadow_.told) == grant.granted, "the class of a grant is that of its chunk", [&] {
          return fmt::format("{}: class {} granted, class {} by its uses", to_text(grant.range),
                             static_cast<int>(grant.granted), static_cast<int>(class_of(taken.uses, on, shadow_.told)));
        });
    for (const Run& run : runs) {
      for (const FreeChunk& chunk : run) {
        const Bytes length = chunk.range.length();
        if (chunk.murky || length < grant.range.length()) continue;
        if (class_of(chunk.uses, on, shadow_.told) != grant.granted) continue;
        shadow_.require(std::tuple(taken.range.length(), taken.range.begin) <= std::tuple(length, chunk.range.begin),
                        "best fit inside a class, ties to the lowest address", [&] {
                          return fmt::format("{} taken for {} bytes, {} fits better", to_text(taken.range),
                                             grant.range.length().count, to_text(chunk.range));
                        });
      }
    }
  }

  // Of neighbours none of which needs a wait.
  [[nodiscard]] Bytes longest_without_waits(const Run& run, StreamId on) const {
    Bytes longest, length;
    for (const FreeChunk& chunk : run) {
      length = needs_wait(chunk, on) ? Bytes{} : length + chunk.range.length();
      longest = std::max(longest, length);
    }
    return longest;
  }
  [[nodiscard]] bool needs_wait(const FreeChunk& chunk, std::optional<StreamId> on) const {
    return on && class_of(chunk.uses, *on, shadow_.told) == GrantClass::orderable;
  }

  // The fewest bytes to commit so that, with free neighbours that need no wait on `on` (any neighbours without it), the
  // size fits; empty when the limit or the addresses forbid it.
  [[nodiscard]] std::optional<Bytes> least_growth(const std::vector<Run>& runs, Bytes size,
                                                  std::optional<StreamId> on) const {
    std::optional<Bytes> least;
    each_gap(shadow_, [&](Range gap) {
      Bytes left, right;
      for (const Run& run : runs) {
        if (extent(run).end == gap.begin) left = usable_tail(run.rbegin(), run.rend(), on);
        if (extent(run).begin == gap.end) right = usable_tail(run.begin(), run.end(), on);
      }
      const Bytes missing = size - std::max(left, right);
      if (missing <= Bytes{}) return;
      Bytes memory = round_up(missing, shadow_.options().granule);
      if (memory > gap.length() && left + gap.length() + right >= size) memory = gap.length();
      if (memory > gap.length() || memory > growth_room(shadow_)) return;
      if (!least || memory < *least) least = memory;
    });
    return least;
  }

  template <class At>
  [[nodiscard]] Bytes usable_tail(At first, At last, std::optional<StreamId> on) const {
    Bytes length;
    for (; first != last && !needs_wait(*first, on); ++first) length += first->range.length();
    return length;
  }

  [[nodiscard]] Range whole_granules(Range range) const {
    const Range whole{round_up(range.begin, shadow_.options().granule),
                      round_down(range.end, shadow_.options().granule)};
    return whole.empty() ? Range{} : whole;
  }

  ShadowPool& shadow_;
  FreeChunks chunks_;
  std::unordered_map<std::uint32_t, FreeChunk> granted_with_;
  std::int64_t exact_judgements_ = 0;
};

}  // namespace spillway::shadow
