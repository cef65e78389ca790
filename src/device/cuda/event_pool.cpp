#include "device/cuda/event_pool.h"

#include "device/cuda/driver.h"

namespace spillway {
namespace {

CUevent make_event(bool timed) {
  CUevent handle = nullptr;
  SPILLWAY_CU(cuEventCreate, &handle, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  return handle;
}

}  // namespace

EventPool::~EventPool() {
  for (Event* event : all_) {
    cuda_driver().cuEventDestroy(event->handle);
    delete event;
  }
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

}  // namespace spillway
