// Host memory as a device: real bytes in RAM, a RAM tier outside the budget, a file below; threads as copy streams.
//
// This is what runs where there is no card, and what holds training on the CPU inside a RAM budget. The device tier and
// the host tier are two stretches of addresses with memory behind the committed parts only; memory given back faults on
// a late access. The file tier is a SpillFile. Work of the program itself is on `caller_stream`: a tick recorded there
// is done at once, a wait there blocks the caller, a copy there runs inline (and throws its own DeviceError).
//
//   committed(device) <= HostOptions::memory, when that is set
//
// All functions from any thread; no lock is held while bytes move. In a forked child only caller_stream may be used.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "device/device.h"
#include "device/host/mapped_arena.h"
#include "device/host/spill_file.h"
#include "device/host/worker.h"
#include "device/ledger.h"

namespace spillway {

struct HostOptions {
  Bytes memory;                         // limits, in bytes committed; zero: none but the system's
  Bytes host_memory;
  Bytes file_room;
  Bytes granule = 2_MiB;                // a multiple of the page size
  bool poison = false;                  // committed memory comes filled with kPoison
  std::optional<SpillFileOptions> file; // none: reserve(Tier::file) is refused
};

class HostDevice final : public Device {
 public:
  static constexpr std::byte kPoison{0xA5};
  static constexpr std::uint32_t kMaxStreams = 256;  // each is a thread

  explicit HostDevice(HostOptions options = {});
  ~HostDevice() override;

  [[nodiscard]] const DeviceFacts& facts() const override { return facts_; }
  void reserve(Tier tier, Bytes size) override;
  [[nodiscard]] bool try_commit(Tier tier, Range range) override;
  void decommit(Tier tier, Range range) override;
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
  [[nodiscard]] Nanos now() const override { return host_now(); }
  void before_fork() override;
  void after_fork() override;

  // The stream that is the calling thread itself.
  [[nodiscard]] StreamId caller_stream() const { return {0}; }
  // Enqueues any work on a stream; what it throws is told as DeviceError by the ticks after it.
  void call(StreamId on, std::function<void()> work);

 private:
  [[nodiscard]] Worker* find_worker(StreamId stream) const;
  [[nodiscard]] Worker* find_recorded(Tick tick) const;
  [[nodiscard]] Nanos time_of(Tick tick) const;
  void check_copy_of(Place to, Place from, Bytes size) const;
  void move_bytes(Place to, Place from, Bytes size, Bounce& bounce) const;
  void move_in_file(Bytes to, Bytes from, Bytes size, Bounce& bounce) const;
  bool back_with_memory(Tier tier, Range range);

  const HostOptions options_;
  const DeviceFacts facts_;
  const pid_t owner_;

  mutable std::mutex mutex_;  // guards ledgers_ and the opening of streams and tiers
  std::array<Ledger, kTierCount> ledgers_;
  std::array<std::unique_ptr<MappedArena>, 2> arenas_;
  std::array<std::atomic<std::byte*>, 2> begins_{};
  std::unique_ptr<SpillFile> file_;

  mutable std::mutex caller_mutex_;  // guards caller_times_ and the changes of caller_ticks_
  std::atomic<std::uint64_t> caller_ticks_ = 0;
  TickTimes caller_times_;

  std::atomic<std::uint32_t> streams_ = 1;
  std::array<std::unique_ptr<Worker>, kMaxStreams> workers_;  // [0] stays empty: the caller's; published by streams_
};

}  // namespace spillway
