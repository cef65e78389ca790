// The virtual clock of the fake device: streams of work, and when each piece of it is done, to the nanosecond.
//
// Work flows like a fluid. Whatever is at the head of a stream and may run progresses at a rate that depends on what
// else runs at that instant: a copy slows when the link is busy the other way, a kernel slows beside copies. Work of
// one kind (a lane: the link out, the link in, the file each way, kernels, ...) runs one at a time in the order of
// becoming ready; ready at the same instant: in the order enqueued, or by stream id when one event releases several.
//
// Rates change only at events, and events lie at whole nanoseconds: a piece of work is done at the first nanosecond at
// which nothing of it is left. Between events the bookkeeping is exact integer arithmetic, so a result does not depend
// on how often the clock is looked at. Not locked.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "base/range.h"
#include "base/tick.h"
#include "device/device.h"
#include "device/fake/card.h"
#include "device/tick_times.h"

namespace spillway {

class VirtualClock {
 public:
  explicit VirtualClock(const Card& card);

  [[nodiscard]] Nanos now() const { return now_; }
  // Lets everything happen that happens until then.
  void advance_to(Nanos time);

  [[nodiscard]] StreamId open_stream();
  [[nodiscard]] bool has(StreamId stream) const { return stream.index < streams_.size(); }

  // The card's rates from now on; what kernels lose beside copies stays as it was.
  void set_card(const Card& card) { card_ = card; }

  // Everything enqueued is ready from now() on, in the order of its stream.
  void compute(StreamId on, Nanos duration);
  void copy(StreamId on, Place to, Place from, Bytes size);
  [[nodiscard]] Tick record(StreamId on);
  void wait(StreamId on, Tick tick);

  [[nodiscard]] std::uint64_t recorded(StreamId stream) const { return streams_[stream.index].recorded; }
  [[nodiscard]] bool is_done(Tick tick) const { return streams_[tick.stream.index].done >= tick.value; }
  void advance_until_done(Tick tick);
  [[nodiscard]] Nanos time_of(Tick tick) const;

  // Whether a copy that is enqueued and not done reads or writes any of the range.
  [[nodiscard]] bool is_touched(Tier tier, Range range) const;

 private:
  __extension__ using Wide = __int128;

  // One at a time in each, except kernels: Card::compute_slots. A copy between device and file is on the file's lane
  // alone: a disk takes a small part of the link.
  enum class Lane : std::uint8_t { out, in, device, host, file_write, file_read, compute };
  static constexpr std::size_t kLanes = 7;
  enum class Kind : std::uint8_t { compute, copy, tick, wait };

  struct Work {
    Kind kind = Kind::compute;
    Lane lane = Lane::compute;
    Nanos latency;      // still to pass before the work itself begins
    Wide left = 0;      // in the unit of its lane, see speed()
    Tick tick;          // what it is (Kind::tick) or waits for (Kind::wait)
    Place to, from;
    Bytes size;
  };
  struct Stream {
    std::deque<Work> queue;
    bool started = false;  // its head is in a lane
    std::uint64_t recorded = 0, done = 0;
    TickTimes times;
  };
  struct Busy {
    bool out = false, in = false;
  };

  static Lane lane_of(Tier to, Tier from);
  [[nodiscard]] Wide speed(const Work& work, Busy busy) const;
  [[nodiscard]] Rate copy_rate(const Work& work, Busy busy) const;
  [[nodiscard]] Busy busy_links() const;
  template <class Visit>
  void for_each_running(Visit visit) const;

  void enqueue(StreamId on, Work work);
  [[nodiscard]] Nanos until_next_event() const;  // kNever when nothing runs
  void progress(Nanos time);
  void retire();
  void settle();
  [[nodiscard]] bool pass_head(Stream& stream);

  static constexpr Nanos kNever{INT64_MAX};

  Card card_;
  // Kernels are counted in parts of a nanosecond fine enough for every slowdown to be a whole number of them per
  // nanosecond: [0] no copy, [1] out, [2] in, [3] both.
  std::array<Wide, 4> compute_speed_{};
  Nanos now_;
  std::vector<Stream> streams_;
  std::array<std::deque<std::uint32_t>, kLanes> lanes_;  // streams whose head is in the lane; the first ones run
};

}  // namespace spillway
