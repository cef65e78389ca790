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
      clock_(card_),
      caller_computes_(options.caller_computes),
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
  SPILLWAY_ENSURE(!clock_.is_touched(tier, range), "decommit under an enqueued copy");
  if (races_) races_->forget(tier, range);
  ledger(tier).decommit(range);
}

bool FakeDevice::try_move(Tier tier, std::span<const Range> to, std::span<const Range> from, std::span<const Tick> in_use) {
  const std::lock_guard lock(mutex_);
  if (caller_computes_) return false;  // as the host's memory, which it stands for then
  for (const Tick tick : in_use) check_tick(tick);
  ledger(tier).move(to, from);
  if (races_) races_->move(tier, to, from);
  return true;
}

Bytes FakeDevice::committed(Tier tier) const {
  const std::lock_guard lock(mutex_);
  return ledgers_[static_cast<std::size_t>(tier)].committed();
}

std::byte* FakeDevice::address(Tier tier, Bytes offset) const {
  constexpr std::uintptr_t kFirst = std::uintptr_t{1} << 44;  // nobody's, and never null
  return tier == Tier::device ? reinterpret_cast<std::byte*>(kFirst + static_cast<std::uintptr_t>(offset.count)) : nullptr;
}

StreamId FakeDevice::open_stream() {
  const std::lock_guard lock(mutex_);
  if (races_) races_->open_stream();
  return clock_.open_stream();
}

void FakeDevice::check_stream(StreamId stream) const {
  SPILLWAY_ENSURE(clock_.has(stream), "a stream of this device");
}

void FakeDevice::check_tick(Tick tick) const {
  check_stream(tick.stream);
  SPILLWAY_ENSURE(tick.value <= clock_.recorded(tick.stream), "a tick that was recorded");
}

void FakeDevice::spend(Nanos host_time) { clock_.advance_to(clock_.now() + host_time); }

void FakeDevice::copy(StreamId on, Place to, Place from, Bytes size) {
  const std::lock_guard lock(mutex_);
  check_stream(on);
  if (size == 0_B) return;
  check_copy(ledger(to.tier), to, ledger(from.tier), from, size);
  if (races_) races_->enqueue(on, std::array{MemoryUse{from, size, false}, MemoryUse{to, size, true}});
  spend(card_.launch);
  clock_.copy(on, to, from, size);
}

// A kernel that writes at the memory's full rate.
void FakeDevice::fill(StreamId on, Bytes offset, Bytes size, std::byte) {
  if (size == 0_B) return;
  const MemoryUse write{{Tier::device, offset}, size, /*writes=*/true};
  const double seconds = static_cast<double>(size.count) / static_cast<double>(card_.hbm.count);
  compute(on, Nanos{static_cast<std::int64_t>(seconds * 1e9)}, std::span(&write, 1));
}

void FakeDevice::compute(StreamId on, Nanos duration, std::span<const MemoryUse> uses) {
  const std::lock_guard lock(mutex_);
  check_stream(on);
  SPILLWAY_ENSURE(duration >= 0_ns, "a kernel takes no negative time");
  for (const MemoryUse& use : uses)
    SPILLWAY_ENSURE(ledger(use.place.tier).holds({use.place.offset, use.place.offset + use.size}),
                    "a kernel uses committed memory");
  if (races_) races_->enqueue(on, uses);
  spend(card_.launch);
  clock_.compute(on, duration * 100 / pace_percent_);
}

Tick FakeDevice::record(StreamId on) {
  const std::lock_guard lock(mutex_);
  check_stream(on);
  spend(card_.event);
  const Tick tick = clock_.record(on);
  if (races_) races_->record(tick);
  return tick;
}

Tick FakeDevice::mark(StreamId on) {
  if (caller_computes_ && on.index == 0) {
    const std::lock_guard lock(mutex_);
    if (const std::uint64_t newest = clock_.recorded(on); newest > 0) return {on, newest};
  }
  return record(on);
}

void FakeDevice::wait(StreamId waiter, Tick tick) {
  const std::lock_guard lock(mutex_);
  check_stream(waiter);
  check_tick(tick);
  spend(card_.event);
  clock_.wait(waiter, tick);
  if (races_) races_->wait(waiter, tick);
}

bool FakeDevice::query(Tick tick) {
  const std::lock_guard lock(mutex_);
  check_tick(tick);
  spend(card_.event);
  if (!clock_.is_done(tick)) return false;
  if (races_) races_->host_saw(tick);
  return true;
}

void FakeDevice::synchronize(Tick tick) {
  const std::lock_guard lock(mutex_);
  check_tick(tick);
  clock_.advance_until_done(tick);
  if (races_) races_->host_saw(tick);
}

Nanos FakeDevice::elapsed(Tick from, Tick to) {
  const std::lock_guard lock(mutex_);
  check_tick(from);
  check_tick(to);
  return clock_.time_of(to) - clock_.time_of(from);
}

Nanos FakeDevice::now() const {
  const std::lock_guard lock(mutex_);
  return clock_.now();
}

void FakeDevice::set_link_percent(std::int64_t percent) {
  const std::lock_guard lock(mutex_);
  SPILLWAY_ENSURE(percent > 0, "a link that carries something");
  Card card = card_;
  for (Rate Card::*rate : {&Card::out, &Card::in, &Card::out_both, &Card::in_both}) card.*rate = card_.*rate * percent / 100;
  clock_.set_card(card);
}

void FakeDevice::set_pace_percent(std::int64_t percent) {
  const std::lock_guard lock(mutex_);
  SPILLWAY_ENSURE(percent > 0, "a card that gets on");
  pace_percent_ = percent;
}

Nanos FakeDevice::at_pace(Nanos duration) const {
  const std::lock_guard lock(mutex_);
  return duration * 100 / pace_percent_;
}

void FakeDevice::advance(Nanos host_work) {
  const std::lock_guard lock(mutex_);
  SPILLWAY_ENSURE(host_work >= 0_ns, "the host's clock does not go back");
  spend(host_work);
}

}  // namespace spillway
