// The streams of one card and the points in their order.
//
// A stream is ours (opened here, non-blocking, its ticks timed) or adopted (torch's; ours to order, not to close). The
// n-th record on a stream is its tick n. An event stands for a tick until the tick is known to be done, and where ticks
// are timed until kTickWindow newer ones were recorded:
//
//   ticks 1..done are done; pending[i] is the event of tick done + 1 + i, past[past.size() - 1 - i] that of done - i, null
//   where that one carries no time
//
//   recorded == done + pending.size() whenever the lock is free; marked <= recorded + 1
//
// A mark names tick recorded + 1 before there is an event for it (Note [Marks] in stream_table.cpp). Ticks of a stream finish in order, so one event found done settles all before it. Asking about a tick at or below
// `done` is one atomic load. Any thread; each stream has a lock of its own, never held while the host waits. The context
// must be current, except for knows_done.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/tick.h"
#include "device/cuda/event_pool.h"
#include "device/device.h"

namespace spillway {

class StreamTable {
 public:
  // `time_adopted`: also ticks of adopted streams can be asked for their time.
  explicit StreamTable(bool time_adopted) : time_adopted_(time_adopted) {}
  ~StreamTable();
  StreamTable(const StreamTable&) = delete;
  StreamTable& operator=(const StreamTable&) = delete;

  [[nodiscard]] StreamId open();
  [[nodiscard]] StreamId adopt(CUstream handle);
  [[nodiscard]] CUstream handle(StreamId stream) const { return at(stream).handle; }
  [[nodiscard]] bool is_own(StreamId stream) const { return at(stream).own; }

  // `timed`: its time can be asked for, also where the stream's other ticks carry none.
  [[nodiscard]] Tick record(StreamId on, bool timed = false);
  [[nodiscard]] Tick mark(StreamId on);  // no context needed
  void wait(StreamId waiter, Tick tick);
  [[nodiscard]] bool query(Tick tick);
  // True without looking when the tick was found done before.
  [[nodiscard]] bool knows_done(Tick tick) const { return tick.value <= at(tick.stream).done; }
  void synchronize(Tick tick);
  [[nodiscard]] Nanos elapsed(Tick from, Tick to);

 private:
  struct Stream {
    CUstream handle = nullptr;
    bool own = false, timed = false;
    std::mutex mutex;
    std::atomic<std::uint64_t> done = 0;
    std::atomic<std::uint64_t> recorded = 0;
    std::atomic<std::uint64_t> marked = 0;
    std::deque<Event*> pending;
    std::deque<Event*> past;
    std::size_t sweep_at = kFirstSweep;
  };

  static constexpr std::size_t kMaxStreams = 1024;  // torch has at most 129 a card, external streams beside them
  static constexpr std::size_t kFirstSweep = 64;    // ticks nobody asks about are looked at once so many are pending

  [[nodiscard]] Stream& at(StreamId stream) const;
  [[nodiscard]] StreamId add(CUstream handle, bool own);
  void record_event(Stream& stream, Event* event);
  void record_mark(Stream& stream, std::uint64_t value);
  [[nodiscard]] static Event* find_pending(Stream& stream, std::uint64_t value);
  void settle(Stream& stream, std::uint64_t value);
  void sweep(Stream& stream);
  void release(Event* event);
  // The event of a tick that is done, kept from being used again meanwhile.
  using Borrowed = std::unique_ptr<Event, std::function<void(Event*)>>;
  [[nodiscard]] Borrowed borrow_past(Tick tick);

  bool time_adopted_;
  EventPool events_;
  std::mutex adding_;
  std::atomic<std::size_t> count_ = 0;
  std::array<std::unique_ptr<Stream>, kMaxStreams> streams_;  // the first count_ never change any more
};

}  // namespace spillway
