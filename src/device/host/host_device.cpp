#include "device/host/host_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace spillway {
namespace {

std::size_t index(Tier tier) { return static_cast<std::size_t>(tier); }

std::size_t to_size(Bytes bytes) { return static_cast<std::size_t>(bytes.count); }

Bytes page_size() { return {sysconf(_SC_PAGESIZE)}; }

Bytes physical_memory() { return page_size() * sysconf(_SC_PHYS_PAGES); }

DeviceFacts facts_of(const HostOptions& options) {
  return {.name = "host",
          .granule = options.granule,
          .memory = options.memory > 0_B ? options.memory : physical_memory(),
          .holds_bytes = true};
}

}  // namespace

HostDevice::HostDevice(HostOptions options)
    : options_(std::move(options)),
      facts_(facts_of(options_)),
      owner_(getpid()),
      ledgers_{Ledger(options_.granule, options_.memory), Ledger(options_.granule, options_.host_memory),
               Ledger(options_.granule, options_.file_room)} {
  const Bytes granule = options_.granule;
  SPILLWAY_ENSURE(granule > 0_B && granule % page_size() == 0_B && granule % kFileBlock == 0_B,
                  "the granule is a multiple of the page size");
}

// In a forked child the threads are gone and what they held can be neither joined nor destroyed: it is left to the
// child's end.
HostDevice::~HostDevice() {
  const bool forked = getpid() != owner_;
  for (auto& worker : workers_) {
    if (worker && forked) (void)worker.release();
    if (worker) worker->finish();  // all of them before the first is destroyed: they wait for each other
  }
}

void HostDevice::reserve(Tier tier, Bytes size) {
  const std::lock_guard lock(mutex_);
  Ledger reserved = ledgers_[index(tier)];
  reserved.reserve(size);
  if (tier == Tier::file) {
    if (!options_.file) throw InputError("there is no spill folder: name one with --spill-dir");
    file_ = std::make_unique<SpillFile>(*options_.file);
  } else {
    arenas_[index(tier)] = std::make_unique<MappedArena>(size, options_.granule);
    begins_[index(tier)].store(arenas_[index(tier)]->begin(), std::memory_order_release);
  }
  ledgers_[index(tier)] = std::move(reserved);
}

// The ledger is changed first, so that two commits at once cannot pass the limit together; the lock is not held while
// the system finds the memory.
bool HostDevice::try_commit(Tier tier, Range range) {
  {
    const std::lock_guard lock(mutex_);
    if (!ledgers_[index(tier)].try_commit(range)) return false;
  }
  bool backed = false;
  try {
    backed = back_with_memory(tier, range);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    ledgers_[index(tier)].decommit(range);
    throw;
  }
  if (backed) return true;
  const std::lock_guard lock(mutex_);
  ledgers_[index(tier)].decommit(range);
  return false;
}

bool HostDevice::back_with_memory(Tier tier, Range range) {
  if (tier == Tier::file) return file_->try_commit(range);
  MappedArena& arena = *arenas_[index(tier)];
  if (!arena.try_commit(range)) return false;
  if (options_.poison)
    std::memset(arena.begin() + range.begin.count, std::to_integer<int>(kPoison), to_size(range.length()));
  return true;
}

// The memory goes before the books say so: a commit of the same range cannot come in between.
void HostDevice::decommit(Tier tier, Range range) {
  {
    const std::lock_guard lock(mutex_);
    ledgers_[index(tier)].check_decommit(range);
  }
  if (tier == Tier::file) {
    file_->decommit(range);
  } else {
    arenas_[index(tier)]->decommit(range);
  }
  const std::lock_guard lock(mutex_);
  ledgers_[index(tier)].decommit(range);
}

Bytes HostDevice::committed(Tier tier) const {
  const std::lock_guard lock(mutex_);
  return ledgers_[index(tier)].committed();
}

std::byte* HostDevice::address(Tier tier, Bytes offset) const {
  if (tier == Tier::file) return nullptr;
  std::byte* begin = begins_[index(tier)].load(std::memory_order_acquire);
  return begin == nullptr ? nullptr : begin + offset.count;
}

StreamId HostDevice::open_stream() {
  const std::lock_guard lock(mutex_);
  const std::uint32_t stream = streams_.load(std::memory_order_relaxed);
  SPILLWAY_ENSURE(stream < kMaxStreams, "a host device has kMaxStreams streams at most");
  workers_[stream] = std::make_unique<Worker>();
  streams_.store(stream + 1, std::memory_order_release);
  return {stream};
}

// Null for the caller's own stream.
Worker* HostDevice::find_worker(StreamId stream) const {
  SPILLWAY_ENSURE(stream.index < streams_.load(std::memory_order_acquire), "a stream of this device");
  return workers_[stream.index].get();
}

// The worker of a tick that was recorded; null when the tick lies on the caller's stream, where it is done.
Worker* HostDevice::find_recorded(Tick tick) const {
  Worker* worker = find_worker(tick.stream);
  const std::uint64_t recorded = worker ? worker->recorded() : caller_ticks_.load(std::memory_order_acquire);
  SPILLWAY_ENSURE(tick.value <= recorded, "a tick that was recorded");
  return worker;
}

void HostDevice::copy(StreamId on, Place to, Place from, Bytes size) {
  Worker* worker = find_worker(on);
  if (size == 0_B) return;
  check_copy_of(to, from, size);
  if (worker) return worker->run([=, this](Bounce& bounce) { move_bytes(to, from, size, bounce); });
  Bounce bounce;
  move_bytes(to, from, size, bounce);
}

void HostDevice::fill(StreamId on, Bytes offset, Bytes size, std::byte value) {
  Worker* worker = find_worker(on);
  if (size == 0_B) return;
  {
    const std::lock_guard lock(mutex_);
    SPILLWAY_ENSURE(ledgers_[index(Tier::device)].holds({offset, offset + size}), "a fill writes committed memory");
  }
  std::byte* into = address(Tier::device, offset);
  const auto overwrite = [=] { std::memset(into, std::to_integer<int>(value), to_size(size)); };
  if (worker) return worker->run([=](Bounce&) { overwrite(); });
  overwrite();
}

void HostDevice::check_copy_of(Place to, Place from, Bytes size) const {
  const std::lock_guard lock(mutex_);
  check_copy(ledgers_[index(to.tier)], to, ledgers_[index(from.tier)], from, size);
}

void HostDevice::move_bytes(Place to, Place from, Bytes size, Bounce& bounce) const {
  std::byte* into = address(to.tier, to.offset);
  const std::byte* out_of = address(from.tier, from.offset);
  if (into && out_of) {
    std::memcpy(into, out_of, to_size(size));
  } else if (into) {
    file_->read(from.offset, into, size, bounce);
  } else if (out_of) {
    file_->write(to.offset, out_of, size, bounce);
  } else {
    move_in_file(to.offset, from.offset, size, bounce);
  }
}

void HostDevice::move_in_file(Bytes to, Bytes from, Bytes size, Bounce& bounce) const {
  for (Bytes at; at < size; at += Bounce::kSize) {
    const Bytes piece = round_up(std::min(Bounce::kSize, size - at), kFileBlock);
    file_->read(from + at, bounce.bytes(), piece, bounce);
    file_->write(to + at, bounce.bytes(), piece, bounce);
  }
}

void HostDevice::call(StreamId on, std::function<void()> work) {
  Worker* worker = find_worker(on);
  if (!worker) return work();
  worker->run([work = std::move(work)](Bounce&) { work(); });
}

Tick HostDevice::record(StreamId on) {
  if (Worker* worker = find_worker(on)) return {on, worker->record()};
  const std::lock_guard lock(caller_mutex_);
  const std::uint64_t value = caller_ticks_.load(std::memory_order_relaxed) + 1;
  caller_times_.note(value, host_now());
  caller_ticks_.store(value, std::memory_order_release);
  return {on, value};
}

// Work on the caller's stream is done when its call returns, so its newest tick says as much as a new one would.
Tick HostDevice::mark(StreamId on) {
  const std::uint64_t newest = caller_ticks_.load(std::memory_order_acquire);
  return on == caller_stream() && newest > 0 ? Tick{on, newest} : record(on);
}

void HostDevice::wait(StreamId waiter, Tick tick) {
  Worker* worker = find_worker(waiter);
  const Worker* other = find_recorded(tick);
  if (!other || other == worker) return;
  if (worker) return worker->wait_for(*other, tick.value);
  synchronize(tick);
}

bool HostDevice::query(Tick tick) {
  const Worker* worker = find_recorded(tick);
  if (!worker) return true;
  if (!worker->is_done(tick.value)) return false;
  worker->check(tick.value);
  return true;
}

void HostDevice::synchronize(Tick tick) {
  const Worker* worker = find_recorded(tick);
  if (!worker) return;
  worker->block_until(tick.value);
  worker->check(tick.value);
}

// A call holds one of these locks at a time, so any order will do.
void HostDevice::before_fork() {
  mutex_.lock();
  caller_mutex_.lock();
  for (const auto& worker : workers_) {
    if (worker) worker->before_fork();
  }
}

void HostDevice::after_fork() {
  for (const auto& worker : workers_) {
    if (worker) worker->after_fork();
  }
  caller_mutex_.unlock();
  mutex_.unlock();
}

Nanos HostDevice::elapsed(Tick from, Tick to) { return time_of(to) - time_of(from); }

Nanos HostDevice::time_of(Tick tick) const {
  if (const Worker* worker = find_recorded(tick)) return worker->time_of(tick.value);
  const std::lock_guard lock(caller_mutex_);
  const std::uint64_t recorded = caller_ticks_.load(std::memory_order_relaxed);
  return caller_times_.at(tick.value, recorded, recorded);
}

}  // namespace spillway
