// Who comes after whom: the whole happens-before relation of a few streams, kept naively.
//
// Every recorded tick keeps a full snapshot of what its stream was ordered after, so any question about any two ticks
// is one look-up. Nothing is approximated or forgotten: this is the truth the pool's own, smaller memory is held to.
//
//   covers(later, earlier)  ==  `earlier` is done whenever `later` is
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/tick.h"

namespace spillway::shadow {

inline constexpr std::size_t kMaxStreams = 8;

// The last tick of each stream, by stream index; 0: none.
using Clock = std::array<std::uint64_t, kMaxStreams>;

inline void raise(Clock& clock, const Clock& other) {
  for (std::size_t s = 0; s < kMaxStreams; ++s) clock[s] = std::max(clock[s], other[s]);
}
inline void raise(Clock& clock, Tick tick) {
  clock[tick.stream.index] = std::max(clock[tick.stream.index], tick.value);
}

class StreamOrder {
 public:
  explicit StreamOrder(std::size_t streams) : now_(streams), at_(streams, std::vector<Clock>(1)) {}

  [[nodiscard]] std::size_t streams() const { return now_.size(); }
  [[nodiscard]] Tick newest(StreamId on) const { return {on, at_[on.index].size() - 1}; }

  Tick record(StreamId on) {
    Clock& clock = now_[on.index];
    clock[on.index] = at_[on.index].size();
    at_[on.index].push_back(clock);
    return newest(on);
  }

  void wait(StreamId waiter, Tick tick) { raise(now_[waiter.index], at_[tick.stream.index][tick.value]); }
  void finish(Tick tick) { raise(done_, at_[tick.stream.index][tick.value]); }

  [[nodiscard]] bool exists(Tick tick) const {
    return tick.stream.index < streams() && tick.value < at_[tick.stream.index].size();
  }
  [[nodiscard]] bool done(Tick tick) const { return tick.value <= done_[tick.stream.index]; }
  // Whatever is enqueued on `on` from now starts after the tick: by stream order, or by a chain of waits.
  [[nodiscard]] bool ordered(StreamId on, Tick tick) const {
    return tick.stream == on || tick.value <= now_[on.index][tick.stream.index];
  }
  [[nodiscard]] bool covers(Tick later, Tick earlier) const {
    return earlier.value <= at_[later.stream.index][later.value][earlier.stream.index];
  }

 private:
  std::vector<Clock> now_;              // what the next work of each stream is ordered after
  std::vector<std::vector<Clock>> at_;  // [stream][tick value]: what that tick is ordered after, itself included
  Clock done_{};
};

}  // namespace spillway::shadow
