#include "device/cuda/stream_table.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "device/cuda/driver.h"

namespace spillway {
namespace {

bool is_done(const Event& event) {
  const CUresult result = cuda_driver().cuEventQuery(event.handle);
  if (result == CUDA_ERROR_NOT_READY) return false;
  check_cuda("cuEventQuery", result);
  return true;
}

}  // namespace

StreamTable::~StreamTable() {
  for (std::size_t i = 0; i < count_; ++i)
    if (streams_[i]->own) cuda_driver().cuStreamDestroy(streams_[i]->handle);
}

StreamId StreamTable::open() {
  CUstream handle = nullptr;
  SPILLWAY_CU(cuStreamCreate, &handle, CU_STREAM_NON_BLOCKING);
  const std::lock_guard lock(adding_);
  return add(handle, /*own=*/true);
}

StreamId StreamTable::adopt(CUstream handle) {
  const auto find = [&](std::size_t begin) {
    std::size_t i = begin;
    while (i < count_.load(std::memory_order_acquire) && (streams_[i]->own || streams_[i]->handle != handle)) ++i;
    return i;
  };
  std::size_t found = find(0);
  if (found < count_) return {static_cast<std::uint32_t>(found)};
  const std::lock_guard lock(adding_);
  found = find(found);
  return found < count_ ? StreamId{static_cast<std::uint32_t>(found)} : add(handle, /*own=*/false);
}

StreamId StreamTable::add(CUstream handle, bool own) {
  const std::size_t index = count_;
  SPILLWAY_ENSURE(index < kMaxStreams, "a card has at most 1024 streams here");
  auto stream = std::make_unique<Stream>();
  stream->handle = handle;
  stream->own = own;
  stream->timed = own || time_adopted_;
  streams_[index] = std::move(stream);
  count_.store(index + 1, std::memory_order_release);
  return {static_cast<std::uint32_t>(index)};
}

// Note [Marks]
// Naming the next tick costs a load; recording an event costs about half a microsecond, too much for every free of a
// training step, since hardly any of those ticks is ever asked about. A mark taken before the event was recorded must not
// stand for an event that lies before the work it marks: so `recorded` is raised before the driver is called. Whoever
// enqueued work after that event has gone through the driver after it, and sees the raised count.
Tick StreamTable::mark(StreamId on) {
  Stream& stream = at(on);
  const std::uint64_t value = stream.recorded + 1;
  std::uint64_t highest = stream.marked;
  while (highest < value && !stream.marked.compare_exchange_weak(highest, value)) {
  }
  return {on, value};
}

Tick StreamTable::record(StreamId on, bool timed) {
  Stream& stream = at(on);
  Event* event = events_.take(timed || stream.timed);
  const std::lock_guard lock(stream.mutex);
  record_event(stream, event);
  const Tick tick{on, stream.recorded};
  if (stream.pending.size() >= stream.sweep_at) sweep(stream);
  return tick;
}

// The stream's lock is held.
void StreamTable::record_event(Stream& stream, Event* event) {
  ++stream.recorded;
  const CUresult result = cuda_driver().cuEventRecord(event->handle, stream.handle);
  if (result != CUDA_SUCCESS) {
    --stream.recorded;
    events_.give_back(event);
    check_cuda("cuEventRecord", result);
  }
  stream.pending.push_back(event);
}

// Somebody wants to know about a tick that was only marked. The stream's lock is held.
void StreamTable::record_mark(Stream& stream, std::uint64_t value) {
  if (value <= stream.recorded || value > stream.marked) return;
  record_event(stream, events_.take(stream.timed));
}

void StreamTable::wait(StreamId waiter, Tick tick) {
  Stream& other = at(tick.stream);
  const CUstream waiting = at(waiter).handle;
  if (waiter == tick.stream || tick.value <= other.done) return;
  const std::lock_guard lock(other.mutex);  // the event must not mark another point before the wait is enqueued
  record_mark(other, tick.value);
  if (const Event* event = find_pending(other, tick.value))
    SPILLWAY_CU(cuStreamWaitEvent, waiting, event->handle, CU_EVENT_WAIT_DEFAULT);
}

bool StreamTable::query(Tick tick) {
  Stream& stream = at(tick.stream);
  if (tick.value <= stream.done) return true;
  const std::lock_guard lock(stream.mutex);
  record_mark(stream, tick.value);
  const Event* event = find_pending(stream, tick.value);
  if (event != nullptr && !is_done(*event)) return false;
  settle(stream, tick.value);
  return true;
}

void StreamTable::synchronize(Tick tick) {
  Stream& stream = at(tick.stream);
  if (tick.value <= stream.done) return;
  std::unique_lock lock(stream.mutex);
  record_mark(stream, tick.value);
  Event* event = find_pending(stream, tick.value);
  if (event == nullptr) return;
  ++event->users;
  const CUevent handle = event->handle;
  lock.unlock();
  const CUresult result = cuda_driver().cuEventSynchronize(handle);
  lock.lock();
  release(event);
  check_cuda("cuEventSynchronize", result);
  settle(stream, tick.value);
}

Nanos StreamTable::elapsed(Tick from, Tick to) {
  SPILLWAY_ENSURE(query(from) && query(to), "both ticks are done");
  const Borrowed first = borrow_past(from), last = borrow_past(to);
  float milliseconds = 0;
  SPILLWAY_CU(cuEventElapsedTime, &milliseconds, first->handle, last->handle);
  return {std::llround(static_cast<double>(milliseconds) * 1e6)};
}

StreamTable::Borrowed StreamTable::borrow_past(Tick tick) {
  Stream& stream = at(tick.stream);
  const std::lock_guard lock(stream.mutex);
  const std::uint64_t age = stream.done - tick.value;
  SPILLWAY_ENSURE(age < stream.past.size() && age + stream.pending.size() < kTickWindow,
                  "the tick is among the last kTickWindow of its stream");
  Event* event = stream.past[stream.past.size() - 1 - age];
  SPILLWAY_ENSURE(event != nullptr, "the tick is timed (Device::record_timed, CudaOptions::time_adopted)");
  ++event->users;
  return {event, [this, &stream](Event* borrowed) {
            const std::lock_guard returning(stream.mutex);
            release(borrowed);
          }};
}

StreamTable::Stream& StreamTable::at(StreamId stream) const {
  SPILLWAY_ENSURE(stream.index < count_.load(std::memory_order_acquire), "a stream of this device");
  return *streams_[stream.index];
}

// Null: the tick is done. The stream's lock is held.
Event* StreamTable::find_pending(Stream& stream, std::uint64_t value) {
  if (value <= stream.done) return nullptr;
  const std::uint64_t index = value - stream.done - 1;
  SPILLWAY_ENSURE(index < stream.pending.size(), "a tick that was recorded");
  return stream.pending[index];
}

// Everything up to the tick is done: its events are past, and free again once nobody can ask for their time. The stream's lock is held.
void StreamTable::settle(Stream& stream, std::uint64_t value) {
  while (stream.done < value) {
    Event* event = stream.pending.front();
    stream.pending.pop_front();
    ++stream.done;
    stream.past.push_back(event->timed ? event : nullptr);
    if (!event->timed) release(event);
  }
  while (!stream.past.empty() && stream.past.size() + stream.pending.size() > kTickWindow) {
    if (stream.past.front() != nullptr) release(stream.past.front());
    stream.past.pop_front();
  }
}

// Finds the newest pending tick that is done by halving, and settles up to it. The stream's lock is held.
void StreamTable::sweep(Stream& stream) {
  const auto first_open =
      std::ranges::partition_point(stream.pending, [](const Event* event) { return is_done(*event); });
  settle(stream, stream.done + static_cast<std::uint64_t>(first_open - stream.pending.begin()));
  stream.sweep_at = std::max(kFirstSweep, 2 * stream.pending.size());
}

// The lock of the event's stream is held.
void StreamTable::release(Event* event) {
  if (--event->users == 0) events_.give_back(event);
}

}  // namespace spillway
