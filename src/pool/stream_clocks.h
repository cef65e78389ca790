// What the pool knows of the order between streams: which ticks are done, and which streams wait for which ticks.
//
// A vector clock per stream, and the history behind it: a wait of T enqueued when its newest tick had value p is
// implied by every tick of T above p, and by no other, so what (T, t) implies can be told exactly. Waits that T's done
// ticks imply are done themselves and leave the history.
//
//   done(tick) implies ordered(stream, tick) for every stream; ordered and implies never claim what is not so.
//
// A history that grows beyond kLongestHistory is folded: its older half is taken to have happened late in that half,
// which is safe and merely knows less about old ticks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/tick.h"

namespace spillway {

class StreamClocks {
 public:
  // Far more waits than a run leaves undone between two queries of a stream; 256 of them are 6 KiB.
  static constexpr std::size_t kLongestHistory = 256;

  void hear(StreamId stream) {
    if (stream.index >= streams_.size() || !streams_[stream.index].known) [[unlikely]]
      meet(stream);
  }
  void hear(Tick tick) {
    hear(tick.stream);
    std::uint64_t& heard = streams_[tick.stream.index].heard;
    heard = std::max(heard, tick.value);
  }
  void note_done(Tick tick);
  void note_wait(StreamId waiter, Tick tick, std::uint64_t position);

  // Streams heard of, in any way.
  [[nodiscard]] int known() const { return known_; }
  // One more than the largest stream number heard of.
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(streams_.size()); }

  // The stream must have been heard of in these.
  [[nodiscard]] std::uint64_t done_up_to(StreamId stream) const { return streams_[stream.index].done; }
  // The newest tick value of `other` that `waiter` is ordered after, for another stream than itself.
  [[nodiscard]] std::uint64_t ordered_up_to(StreamId waiter, StreamId other) const;
  [[nodiscard]] bool done(Tick tick) const { return tick.value <= done_up_to(tick.stream); }
  [[nodiscard]] bool ordered(StreamId waiter, Tick tick) const {
    return tick.stream == waiter || tick.value <= ordered_up_to(waiter, tick.stream);
  }
  [[nodiscard]] bool implies(Tick later, Tick earlier) const;
  // Leaves the ticks that none of the others implies.
  void drop_implied(std::vector<Tick>& ticks) const;

  [[nodiscard]] std::optional<Tick> pending(StreamId stream) const;

  void verify() const;

 private:
  struct Wait {
    std::uint64_t position;  // ticks of the waiter above this imply `tick`
    Tick tick;
  };
  struct Stream {
    bool known = false;
    std::uint64_t heard = 0;  // newest tick value heard of
    std::uint64_t done = 0;
    std::vector<std::uint64_t> after;  // by stream: ordered after ticks up to this
    std::vector<Wait> history;         // by position; the ticks of one stream grow with it
  };

  void meet(StreamId stream);
  void order_after(StreamId waiter, Tick tick, std::uint64_t position);
  static void fold(std::vector<Wait>& history);

  std::vector<Stream> streams_;
  int known_ = 0;
};

}  // namespace spillway
