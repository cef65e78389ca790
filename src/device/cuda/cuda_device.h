// An NVIDIA card: its memory through the virtual memory API, pinned host memory, a file, and its streams.
//
// Device tier: physical granules mapped into one reserved range; what is decommitted is the driver's again at once.
// Host tier: huge-page slabs registered with the driver, so that copies run at the link's full rate. File tier: read and
// written by the host in stream order, through a pinned bounce buffer where the other end is the card.
//
//   free memory told by the driver + committed(device) == constant, as long as nobody else allocates
//
// Memory moves to other addresses without waiting for whoever uses it: it is mapped there as well, and unmapped from the old ones
// when their uses are done (old_addresses.h).
//
// Where this is slower or wider than Device promises: decommitting a part of a host slab waits for the card; a failed
// file copy fails query and synchronize on every stream of the device. Ticks of adopted streams carry no time unless
// asked for (record_timed, or time_adopted for all). No CUDA header is needed to use this one, and no driver to load it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "device/device.h"
#include "device/host/spill_file.h"

struct CUstream_st;  // what cudaStream_t and CUstream point to

namespace spillway {

struct CudaOptions {
  int card = 0;
  Bytes memory;  // limits, in bytes committed; zero: none but the driver's and the system's
  Bytes host_memory;
  Bytes file_room;
  std::optional<SpillFileOptions> file;  // none: reserve(Tier::file) is refused
  // Rounded up to what the driver can do (2 MiB). Committing costs 46 us a granule whatever its size, giving back 38 us
  // (NVIDIA H200, tests/gpu): larger ones make growth cheaper and memory coarser.
  Bytes granule;
  // One driver call per slab registers it, and one copies what a copy has in it: 51 GB/s over slabs of 2 MiB, 55 over
  // slabs of 64 MiB.
  Bytes host_slab = 64_MiB;
  int touch_threads = 4;  // 8 are no faster
  bool time_adopted = false;  // let `elapsed` take ticks of adopted streams
  // Somebody else allocates the card's memory: offsets of the device tier are addresses, and nothing is committed in it.
  bool foreign_memory = false;
};

class CudaDevice final : public Device {
 public:
  // Throws InputError where there is no driver or no such card.
  explicit CudaDevice(CudaOptions options = {});
  ~CudaDevice() override;  // waits for the card

  // Why no CudaDevice can be made here, in words; empty when one can.
  [[nodiscard]] static std::string why_unavailable(int card = 0);

  // Lets work of somebody else's stream be ordered with ours; null is the legacy default stream. The same stream gives
  // the same id each time. The stream is never closed here and must outlive the use of its id.
  [[nodiscard]] StreamId adopt_stream(CUstream_st* stream);
  [[nodiscard]] CUstream_st* handle(StreamId stream) const;
  [[nodiscard]] bool is_adopted(StreamId stream) const;

  // Enqueues work of the host that must not reach CUDA; what it throws is told as DeviceError by query and synchronize.
  void call(StreamId on, std::function<void()> work);

  // What the driver says is free on the card.
  [[nodiscard]] Bytes free_memory() const;

  [[nodiscard]] const DeviceFacts& facts() const override;
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
  [[nodiscard]] Tick record_timed(StreamId on) override;
  [[nodiscard]] Tick mark(StreamId on) override;
  void wait(StreamId waiter, Tick tick) override;
  [[nodiscard]] bool query(Tick tick) override;
  void synchronize(Tick tick) override;
  [[nodiscard]] Nanos elapsed(Tick from, Tick to) override;
  [[nodiscard]] Nanos now() const override;

 private:
  struct Card;
  std::unique_ptr<Card> card_;
};

}  // namespace spillway
