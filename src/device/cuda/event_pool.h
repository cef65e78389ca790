// Events to mark points in streams with, used again and again: creating one costs several times as much as recording it.
//
// Two kinds: plain ones that only order, and timed ones whose distance in time can be read once they are done. Locked
// inside; the context must be current. An Event's own `users` is guarded by the lock of the stream it marks a point of.
#pragma once

#include <cuda.h>

#include <mutex>
#include <vector>

namespace spillway {

struct Event {
  CUevent handle = nullptr;
  bool timed = false;
  int users = 0;  // the stream it marks a point of, and everyone who is looking at it without that stream's lock
};

class EventPool {
 public:
  EventPool() = default;
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  [[nodiscard]] Event* take(bool timed);
  void give_back(Event* event);

 private:
  std::mutex mutex_;
  std::vector<Event*> plain_, timed_;  // free
  std::vector<Event*> all_;
};

}  // namespace spillway
