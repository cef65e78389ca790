// A simulated card: a virtual clock and byte-exact books instead of memory and a GPU.
//
// Nothing is kept and nothing moves; what a program would have waited for is told to the nanosecond. The host has a
// clock too: every call that enqueues takes Card::launch or Card::event of it, `advance` is the host's own work,
// `synchronize` moves it to the end of what is waited for. A query takes Card::event: a loop that polls needs that to
// be above zero.
//
//   same card, same calls -> same times, always
//
// Decommitting under an enqueued copy throws InvariantError; with `detect_races` so does every access that no wait or
// host wait orders, whatever the timing (races.h). All functions from any thread; the threads share the host's clock.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>

#include "device/device.h"
#include "device/fake/card.h"
#include "device/fake/races.h"
#include "device/fake/virtual_clock.h"
#include "device/ledger.h"

namespace spillway {

struct FakeOptions {
  bool detect_races = false;
  bool caller_computes = false;  // the first stream is the calling thread's, as a HostDevice's: its newest tick says as much as a new one
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(Card card, FakeOptions options = {});

  [[nodiscard]] const DeviceFacts& facts() const override { return facts_; }
  void reserve(Tier tier, Bytes size) override;
  [[nodiscard]] bool try_commit(Tier tier, Range range) override;
  void decommit(Tier tier, Range range) override;
  [[nodiscard]] bool try_move(Tier tier, std::span<const Range> to, std::span<const Range> from, std::span<const Tick> in_use) override;
  [[nodiscard]] Bytes committed(Tier tier) const override;
  [[nodiscard]] std::byte* address(Tier tier, Bytes offset) const override;

  [[nodiscard]] StreamId open_stream() override;
  void copy(StreamId on, Place to, Place from, Bytes size) override;
  void fill(StreamId on, Bytes offset, Bytes size, std::byte value) override;
  [[nodiscard]] Tick record(StreamId on) override;
  [[nodiscard]] Tick mark(StreamId on) override;
  void wait(StreamId waiter, Tick tick) override;
  [[nodiscard]] bool query(Tick tick) override;
  void synchronize(Tick tick) override;
  [[nodiscard]] Nanos elapsed(Tick from, Tick to) override;
  [[nodiscard]] Nanos now() const override;

  // Enqueues a kernel that takes `duration` when nothing is beside it. `uses`: what it reads and writes, for
  // detect_races; must be committed.
  void compute(StreamId on, Nanos duration, std::span<const MemoryUse> uses = {});
  // The host works for so long.
  void advance(Nanos host_work);
  // From now on the link runs at so many hundredths of the card's rates, copies under way included.
  void set_link_percent(std::int64_t percent);
  // From now on kernels run at so many hundredths of their pace.
  void set_pace_percent(std::int64_t percent);
  // What a kernel of this duration takes at that pace.
  [[nodiscard]] Nanos at_pace(Nanos duration) const;

  [[nodiscard]] const Card& card() const { return card_; }

 private:
  [[nodiscard]] Ledger& ledger(Tier tier) { return ledgers_[static_cast<std::size_t>(tier)]; }
  void check_stream(StreamId stream) const;
  void check_tick(Tick tick) const;
  void spend(Nanos host_time);

  const Card card_;
  const DeviceFacts facts_;
  mutable std::mutex mutex_;  // guards everything below
  std::array<Ledger, kTierCount> ledgers_;
  VirtualClock clock_;
  const bool caller_computes_;
  std::int64_t pace_percent_ = 100;
  std::unique_ptr<Races> races_;  // null: not asked for
};

}  // namespace spillway
