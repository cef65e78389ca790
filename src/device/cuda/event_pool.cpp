#include "device/cuda/event_pool.h"

#include <cmath>
#include <utility>

#include "device/cuda/driver.h"

namespace spillway {
namespace {

CUevent make_event(bool timed) {
  CUevent handle = nullptr;
  SPILLWAY_CU(cuEventCreate, &handle, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  return handle;
}

// Later minus earlier; negative when they happened the other way round.
Nanos distance(CUevent earlier, CUevent later) {
  float milliseconds = 0;
  SPILLWAY_CU(cuEventElapsedTime, &milliseconds, earlier, later);
  return {std::llround(static_cast<double>(milliseconds) * 1e6)};
}

}  // namespace

EventPool::~EventPool() {
  for (Event* event : all_) {
    cuda_driver().cuEventDestroy(event->handle);
    delete event;
  }
  if (anchor_ != nullptr) cuda_driver().cuEventDestroy(anchor_);
}

Event* EventPool::take(bool timed) {
  const std::lock_guard lock(mutex_);
  std::vector<Event*>& free = timed ? timed_ : plain_;
  if (free.empty()) {
    all_.reserve(all_.size() + 1);
    free.reserve(all_.size() + 1);  // giving back never fails
    free.push_back(new Event{.handle = make_event(timed), .timed = timed});
    all_.push_back(free.back());
  }
  Event* event = free.back();
  free.pop_back();
  event->users = 1;
  return event;
}

void EventPool::give_back(Event* event) {
  const std::lock_guard lock(mutex_);
  (event->timed ? timed_ : plain_).push_back(event);
}

Nanos EventPool::moment(Event& event) {
  const std::lock_guard lock(clock_mutex_);
  if (anchor_ == nullptr) {
    anchor_ = std::exchange(event.handle, make_event(/*timed=*/true));
    return anchor_moment_;
  }
  const Nanos since = distance(anchor_, event.handle);
  const Nanos at = anchor_moment_ + since;
  if (since > kReach) {  // the event becomes the anchor, the old anchor's handle serves in its place
    std::swap(anchor_, event.handle);
    anchor_moment_ = at;
  }
  return at;
}

}  // namespace spillway
