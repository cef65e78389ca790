// An NVIDIA card: its memory through the virtual memory API, pinned host memory, a file, and its streams.
//
// Device tier: physical granules mapped into one reserved range; what is decommitted is the driver's again at once.
// Host tier: huge-page slabs registered with the driver, so that copies run at the link's full rate. File tier: read and
// written by the host in stream order, through a pinned bounce buffer where the other end is the card.
//
//   free memory told by the driver + committed(device) == constant, as long as nobody else allocates
//
// Where this is slower or wider than Device promises: decommitting a part of a host slab waits for the card; a failed
// file copy fails query and synchronize on every stream of the device. Ticks of adopted streams carry no time unless
// asked for. No CUDA header is needed to use this one, and no driver to load it.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

struct CUstream_st;  // what cudaStream_t and CUstream point to

namespace spillway {

struct CudaOptions {
  int card = 0;
  // Registering is one driver call per slab, and one copy goes through per slab it touches; `tests/gpu` prints what
  // either costs at 2 and at 64 MiB.
  Bytes host_slab = 64_MiB;
  int touch_threads = 4;      // page faults of one process stop scaling about there
  std::string spill_folder;   // of the file tier; empty: there is none
  bool time_adopted = false;  // let `elapsed` take ticks of adopted streams
};

class CudaDevice final : public Device {
 public:
  // Throws InputError where there is no driver or no such card.
  explicit CudaDevice(const CudaOptions& options);
  ~CudaDevice() override;  // waits for the card

  // Why no CudaDevice can be made here, in words; empty when one can.
  [[nodiscard]] static std::string why_unavailable(int card = 0);

  // Lets work of somebody else's stream be ordered with ours; null is the legacy default stream. The same stream gives
  // the same id each time. The stream is never closed here and must outlive the use of its id.
  [[nodiscard]] StreamId adopt_stream(CUstream_st* stream);
  [[nodiscard]] CUstream_st* handle(StreamId stream) const;

  // What the driver says is free on the card.
  [[nodiscard]] Bytes free_memory() const;

  [[nodiscard]] const DeviceFacts& facts() const override;
  void reserve(Tier tier, Bytes size) override;
  [[nodiscard]] bool try_commit(Tier tier, Range range) override;
  void decommit(Tier tier, Range range) override;
  [[nodiscard]] Bytes committed(Tier tier) const override;
  [[nodiscard]] std::byte* address(Tier tier, Bytes offset) const override;
  [[nodiscard]] StreamId open_stream() override;
  void copy(StreamId on, Place to, Place from, Bytes size) override;
  [[nodiscard]] Tick record(StreamId on) override;
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
