#include "device/fake/fake_device.h"

#include <utility>

#include "base/error.h"

namespace spillway {

FakeDevice::FakeDevice(Card card, FakeOptions options)
    : card_(std::move(card)),
      facts_{.name = card_.name + " (simulated)",
             .granule = card_.granule,
             .memory = card_.memory,
             .holds_bytes = false},
      ledgers_{Ledger(card_.granule, card_.memory), Ledger(card_.granule, card_.host_memory),
               Ledger(card_.granule, card_.file_room)},
      timeline_(card_),
      races_(options.detect_races ? std::make_unique<Races>() : nullptr) {
  for (Rate rate : {card_.out, card_.in, card_.out_both, card_.in_both, card_.hbm / 2, card_.host_copy,
                    card_.file_write, card_.file_read})
    SPILLWAY_ENSURE(rate > Rate{}, "every rate of a card is positive");
  SPILLWAY_ENSURE(card_.compute_slots > 0, "a card runs at least one kernel at once");
  SPILLWAY_ENSURE(card_.memory > 0_B && card_.host_memory > 0_B && card_.file_room > 0_B, "every tier has room");
}

void FakeDevice::reserve(Tier tier, Bytes size) {
  const std::lock_guard lock(mutex_);
  ledger(tier).reserve(size);
}

bool FakeDevice::try_commit(Tier tier, Range range) {
  const std::lock_guard lock(mutex_);
  return ledger(tier).try_commit(range);
}

void FakeDevice::decommit(Tier tier, Range range) {
  const std::lock_guard lock(mutex_);
  ledger(tier).check_decommit(range);
  SPILLWAY_ENSURE(!timeline_.is_touched(tier, range), "decommit under an enqueued copy");
  if (races_) races_->forget(tier, range);
  ledger(tier).decommit(range);
}

Bytes FakeDevice::committed(Tier tier) const {
  const std::lock_guard lock(mutex_);
  return ledgers_[static_cast<std::size_t>(tier)].committed();
}

StreamId FakeDevice::open_stream() {
  const std::lock_guard lock(mutex_);
  if (races_) races_->open_stream();
  return timeline_.open_stream();
}

void FakeDevice::check_stream(StreamId stream) const {
  SPILLWAY_ENSURE(timeline_.has(stream), "a stream of this device");
}

void FakeDevice::check_tick(Tick tick) const {
  check_stream(tick.stream);
  SPILLWAY_ENSURE(tick.value <= timeline_.recorded(tick.stream), "a tick that was recorded");
}

void FakeDevice::spend(Nanos host_time) { timeline_.advance_to(timeline_.now() + host_time); }

void FakeDevice::copy(StreamId on, Place to, Place from, Bytes size) {
  const std::lock_guard lock(mutex_);
  check_stream(on);
  if (size == 0_B) return;
  check_copy(ledger(to.tier), to, ledger(from.tier), from, size);
  if (races_) races_->enqueue(on, std::array{Use{from, size, false}, Use{to, size, true}});
  spend(card_.launch);
  timeline_.copy(on, to, from, size);
}

// A kernel that writes at the memory's full rate.
void FakeDevice::fill(StreamId on, Bytes offset, Bytes size, std::byte) {
  if (size == 0_B) return;
  const Use write{{Tier::device, offset}, size, /*writes=*/true};
  const double seconds = static_cast<double>(size.count) / static_cast<double>(card_.hbm.count);
  compute(on, Nanos{static_cast<std::int64_t>(seconds * 1e9)}, std::span(&write, 1));
}

void FakeDevice::compute(StreamId on, Nanos duration, std::span<const Use> uses) {
  const std::lock_guard lock(mutex_);
  check_stream(on);
  SPILLWAY_ENSURE(duration >= 0_ns, "a kernel takes no negative time");
  for (const Use& use : uses)
    SPILLWAY_ENSURE(ledger(use.place.tier).holds({use.place.offset, use.place.offset + use.size}),
                    "a kernel uses committed memory");
  if (races_) races_->enqueue(on, uses);
  spend(card_.launch);
  timeline_.compute(on, duration);
}

Tick FakeDevice::record(StreamId on) {
  const std::lock_guard lock(mutex_);
  check_stream(on);
  spend(card_.event);
  const Tick tick = timeline_.record(on);
  if (races_) races_->record(tick);
  return tick;
}

void FakeDevice::wait(StreamId waiter, Tick tick) {
  const std::lock_guard lock(mutex_);
  check_stream(waiter);
  check_tick(tick);
  spend(card_.event);
  timeline_.wait(waiter, tick);
  if (races_) races_->wait(waiter, tick);
}

bool FakeDevice::query(Tick tick) {
  const std::lock_guard lock(mutex_);
  check_tick(tick);
  spend(card_.event);
  if (!timeline_.is_done(tick)) return false;
  if (races_) races_->host_saw(tick);
  return true;
}

void FakeDevice::synchronize(Tick tick) {
  const std::lock_guard lock(mutex_);
  check_tick(tick);
  timeline_.advance_until_done(tick);
  if (races_) races_->host_saw(tick);
}

Nanos FakeDevice::elapsed(Tick from, Tick to) {
  const std::lock_guard lock(mutex_);
  check_tick(from);
  check_tick(to);
  return timeline_.time_of(to) - timeline_.time_of(from);
}

Nanos FakeDevice::now() const {
  const std::lock_guard lock(mutex_);
  return timeline_.now();
}

void FakeDevice::advance(Nanos host_work) {
  const std::lock_guard lock(mutex_);
  SPILLWAY_ENSURE(host_work >= 0_ns, "the host's clock does not go back");
  spend(host_work);
}

}  // namespace spillway
