// Events to mark points in streams with, used again and again: creating one costs several times as much as recording it.
//
// Two kinds: plain ones that only order, and timed ones whose moment can be read once they are done. A moment is
// measured against an anchor event of the pool. The driver gives the distance as milliseconds in a float, so the anchor
// moves along: a distance never exceeds kReach by much, where a float still resolves half a microsecond.
//
// Locked inside; the context must be current. An Event's own `users` is guarded by the stream that holds it.
#pragma once

#include <cuda.h>

#include <mutex>
#include <vector>

#include "base/units.h"

namespace spillway {

struct Event {
  CUevent handle = nullptr;
  bool timed = false;
  int users = 0;  // the stream it marks a point of, and everyone who waits for it on the host
};

class EventPool {
 public:
  EventPool() = default;
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  [[nodiscard]] Event* take(bool timed);
  void give_back(Event* event);

  // When a timed event that is done happened, on a clock that all events of this pool share.
  [[nodiscard]] Nanos moment(Event& event);

 private:
  static constexpr Nanos kReach = 4_s;

  std::mutex mutex_;
  std::vector<Event*> plain_, timed_;  // free
  std::vector<Event*> all_;
  std::mutex clock_mutex_;
  CUevent anchor_ = nullptr;
  Nanos anchor_moment_;
};

}  // namespace spillway
