// The engine's memory from torch's own caching allocator (`--allocator native`), inside a limit on what that reserves.
//
// torch's allocator has a hard limit of its own (its memory fraction): an allocation that would cross it first gives cached
// memory back and then fails, which is when somebody is evicted. So reserved() <= limit() by torch's own count, always.
// A block belongs to the torch stream it was asked for on; what ways home need comes from the thread's current one.
// Slower than our arena under a tight budget: memory freed on one stream cannot serve another, and every refusal empties
// torch's cache.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "arena/block_source.h"
#include "device/cuda/cuda_device.h"

namespace spillway {

class NativeSource final : public BlockSource {
 public:
  // `card` keeps no memory of its own (CudaOptions::foreign_memory): a block's range is its address. Both must outlive this.
  NativeSource(c10::cuda::CUDACachingAllocator::CUDAAllocator& native, CudaDevice& card, c10::DeviceIndex index);

  [[nodiscard]] std::optional<Block> try_allocate(Bytes size, StreamId on) override;
  void free(const Block& block, std::span<const Tick> last_uses) override;
  void wait(StreamId waiter, Tick tick) override { card_.wait(waiter, tick); }
  // The cheapest per byte until their bytes suffice: torch's allocator does not say who lies beside whom.
  [[nodiscard]] std::optional<Window> find_window(Bytes size, const std::function<double(ChunkId)>& cost) const override;
  Bytes trim(bool wait) override;
  void set_limit(Bytes limit) override;
  [[nodiscard]] Bytes limit() const override;
  [[nodiscard]] std::uint64_t commits() const override { return granted_.load(std::memory_order_relaxed); }
  [[nodiscard]] Bytes reserved() const override;
  [[nodiscard]] PoolStats stats() const override;

 private:
  struct Live {
    void* data = nullptr;  // null: the number is free
    cudaStream_t stream = nullptr;
    Bytes size;
  };

  [[nodiscard]] ChunkId number(const Live& block);
  [[nodiscard]] cudaStream_t stream_for(StreamId on) const;

  c10::cuda::CUDACachingAllocator::CUDAAllocator& native_;
  CudaDevice& card_;
  const c10::DeviceIndex index_;
  mutable std::mutex mutex_;  // guards what is below
  std::vector<Live> live_;
  std::vector<std::uint32_t> unused_;
  Bytes limit_, taken_;
  std::atomic<std::uint64_t> granted_ = 0;  // any of them may have grown torch's reserve
};

}  // namespace spillway
