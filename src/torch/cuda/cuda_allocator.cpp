#include "torch/cuda/cuda_allocator.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "torch/cuda/private_pools.h"
#include "torch/cuda/torch_stats.h"
#include "torch/frame.h"
#include "torch/out_of_memory.h"

namespace spillway {

namespace {

namespace native_api = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::MempoolId_t;
using native_api::CUDAAllocator;

Bytes bytes_of(std::size_t count) { return {static_cast<std::int64_t>(count)}; }

class CudaAllocator final : public CUDAAllocator {
 public:
  CudaAllocator(Adapter& adapter, CudaDevice& card, CUDAAllocator& before, bool adaptive_workspace)
      : adaptive_workspace_(adaptive_workspace),
        adapter_(adapter),
        engine_(adapter.engine()),
        card_(card),
        before_(before),
        index_(adapter.options().where.index()),
        native_places_(adapter.options().allocator == "native") {}

  // --- memory -------------------------------------------------------------------------------------------------------
  at::DataPtr allocate(std::size_t size) override {
    const DeviceIndex device = c10::cuda::current_device();
    void* data = size == 0 ? nullptr : take(size, device, c10::cuda::getCurrentCUDAStream(device));
    return {data, data, &delete_block, c10::Device(c10::kCUDA, device)};
  }
  void* raw_alloc(std::size_t size) override {
    const DeviceIndex device = c10::cuda::current_device();
    return size == 0 ? nullptr : take(size, device, c10::cuda::getCurrentCUDAStream(device));
  }
  void* raw_alloc_with_stream(std::size_t size, cudaStream_t stream) override {
    return size == 0 ? nullptr : take(size, c10::cuda::current_device(), stream);
  }
  void raw_delete(void* data) override { delete_block(data); }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
  void copy_data(void* to, const void* from, std::size_t size) const override { before_.copy_data(to, from, size); }

  using CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override {
    if (pointer.get() == nullptr) return;
    if (is_ours(pointer.get())) {
      engine_.note_stream(pointer.get(), card_.adopt_stream(stream.stream()));
      return;
    }
    if (pointer.get_deleter() != &delete_block) return before_.recordStream(pointer, stream);
    c10::DataPtr as_native(pointer.get(), pointer.get(), before_.raw_deleter(), pointer.device());
    before_.recordStream(as_native, stream);
    (void)as_native.release_context();
  }

  void emptyCache(MempoolId_t pool) override {
    if (!pools_.any() && !native_places_) engine_.trim();
    before_.emptyCache(pool);
    count_native();
  }

  // What can be had when everything leaves that may: torch's convolution benchmark asks before it tries a plan, and its
  // workspace will be made room for like any other memory.
  void cacheInfo(DeviceIndex device, std::size_t* largest) override {
    if (device != index_ || !adapter_.managing) return before_.cacheInfo(device, largest);
    const Bytes free = std::min(engine_.most_available(), card_.free_memory() + engine_.stats().reserved);
    *largest = std::max(*largest, static_cast<std::size_t>(std::max(free, 0_B).count));
  }

  // --- figures ------------------------------------------------------------------------------------------------------
  native_api::DeviceStats getDeviceStats(DeviceIndex device) override {
    native_api::DeviceStats stats = before_.getDeviceStats(device);
    if (device != index_) return stats;
    if (!native_places_) add_to(stats, engine_);
    stats.num_ooms = refused_ + (native_places_ ? 0 : stats.num_ooms);
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex device) override { before_.resetAccumulatedStats(device); }
  void resetPeakStats(DeviceIndex device) override {
    before_.resetPeakStats(device);
    if (device == index_) engine_.reset_recent_peaks();
  }
  native_api::SnapshotInfo snapshot(MempoolId_t pool, bool traces) override {
    native_api::SnapshotInfo all = before_.snapshot(pool, traces);
    if (pool == MempoolId_t{0, 0} && !native_places_) append_segments(all.segments, engine_, index_);
    return all;
  }
  // In terms of the budget: what a script may still take, and all it may ever have.
  std::pair<std::size_t, std::size_t> getMemoryInfo(DeviceIndex device) override {
    const auto [free, total] = before_.getMemoryInfo(device);
    const auto budget = engine_.options().budget;
    if (device != index_ || !budget || !adapter_.managing) return {free, total};
    const Bytes left = *budget - engine_.stats().live;
    return {static_cast<std::size_t>(std::max(left, 0_B).count), static_cast<std::size_t>(budget->count)};
  }

  // --- limits -------------------------------------------------------------------------------------------------------
  double getMemoryFraction(DeviceIndex device) override {
    return device == index_ ? fraction_.load() : before_.getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    if (device != index_) return before_.setMemoryFraction(fraction, device);
    TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "invalid fraction: ", fraction, ". Please set within [0, 1].");
    fraction_ = fraction;
    const Bytes allowed{static_cast<std::int64_t>(static_cast<double>(card_.facts().memory.count) * fraction)};
    const auto budget = engine_.options().budget;
    if (!budget || allowed < *budget) engine_.set_budget(allowed);
  }

  // --- private pools: the allocator before us has them ---------------------------------------------------------------
  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) override {
    if (device == index_) {
      // Inside a capture nothing may come home or leave: whatever it will touch must be here before, and what is free
      // goes back to the card for the graph's own memory.
      (void)engine_.bring_all_home();
      engine_.trim(/*wait=*/true);
      pools_.open(pool, filter);
    }
    before_.beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    before_.endAllocateToPool(device, pool);
    if (device == index_) pools_.close(pool);
    count_native();
  }
  void releasePool(DeviceIndex device, MempoolId_t pool) override {
    before_.releasePool(device, pool);
    count_native();
  }
  int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override { return before_.getPoolUseCount(device, pool); }
  void createOrIncrefPool(DeviceIndex device, MempoolId_t pool, std::shared_ptr<CUDAAllocator> allocator) override {
    before_.createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) override { before_.setUseOnOOM(device, pool, use); }
  void setNoSplit(DeviceIndex device, MempoolId_t pool) override { before_.setNoSplit(device, pool); }
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return before_.checkPoolLiveAllocations(device, pool, expected);
  }
  std::shared_ptr<native_api::AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t pool) override {
    return before_.getCheckpointState(device, pool);
  }
  native_api::CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                                     std::shared_ptr<native_api::AllocatorState> state) override {
    native_api::CheckpointDelta delta = before_.setCheckpointPoolState(device, std::move(state));
    for (c10::DataPtr& made : delta.dataptrs_allocd) {
      void* data = made.get();
      const c10::Device where = made.device();
      (void)made.release_context();
      made = c10::DataPtr(data, data, &delete_block, where);
    }
    return delta;
  }

  // --- other processes and other cards ------------------------------------------------------------------------------
  void* getBaseAllocation(void* data, std::size_t* size) override {
    refuse_sharing(data);
    return before_.getBaseAllocation(data, size);
  }
  native_api::ShareableHandle shareIpcHandle(void* data) override {
    refuse_sharing(data);
    return before_.shareIpcHandle(data);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override { return before_.getIpcDevPtr(std::move(handle)); }
  void enablePeerAccess(DeviceIndex device, DeviceIndex other) override { before_.enablePeerAccess(device, other); }
  // The engine's memory is not mapped on other cards, so copies between cards go by the driver's own way.
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, std::size_t count,
                          cudaStream_t stream, bool peers) override {
    if (to_device == from_device || (!is_ours(to) && !is_ours(from))) {
      return before_.memcpyAsync(to, to_device, from, from_device, count, stream, peers);
    }
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, count, stream);
  }

  // --- as before ----------------------------------------------------------------------------------------------------
  void init(int count) override { before_.init(count); }
  bool initialized() override { return before_.initialized(); }
  void enable(bool value) override { before_.enable(value); }
  bool isEnabled() const override { return before_.isEnabled(); }
  std::vector<native_api::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    return before_.getExpandableSegmentSizes(device);
  }
  bool isHistoryEnabled() override { return before_.isHistoryEnabled(); }
  void recordHistory(bool enabled, native_api::CreateContextFn context, std::size_t entries,
                     native_api::RecordContext when, bool clear, const std::vector<std::string>& skip) override {
    before_.recordHistory(enabled, context, entries, when, clear, skip);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& notes) override {
    before_.recordAnnotation(notes);
  }
  void pushCompileContext(std::string& context) override { before_.pushCompileContext(context); }
  void popCompileContext() override { before_.popCompileContext(); }
  void setUserMetadata(const std::string& metadata) override { before_.setUserMetadata(metadata); }
  std::string getUserMetadata() override { return before_.getUserMetadata(); }
  void attachOutOfMemoryObserver(native_api::OutOfMemoryObserver observer) override {
    {
      const std::lock_guard lock(observing_);
      observers_.push_back(observer);
    }
    // Where it places memory for the engine, its failures only mean that somebody must leave.
    if (!native_places_) before_.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(native_api::AllocatorTraceTracker tracker) override {
    before_.attachAllocatorTraceTracker(std::move(tracker));
  }
  std::string name() override { return "spillway"; }

  void free_native(void* data) { before_.raw_delete(data); }
  [[nodiscard]] bool has_private_pools() const { return pools_.any(); }

  // What the allocator before us holds of the card is not the engine's to give.
  void count_native() {
    engine_.set_outside(native_places_ ? 0_B : native_reserved());
  }

 private:
  void* take(std::size_t size, DeviceIndex device, cudaStream_t stream) {
    if (device != index_ || !adapter_.managing) return before_.raw_alloc_with_stream(size, stream);
    if (pools_.any() && pools_.claims(stream)) return take_private(size, stream);
    Record* record = adapter_.try_allocate(bytes_of(size), card_.adopt_stream(stream));
    if (record == nullptr) refuse(size);
    return record->data;
  }

  // Room is made before the pool may grow, and the true count follows. A capture forbids that anybody leaves.
  void* take_private(std::size_t size, cudaStream_t stream) {
    if (native_places_) return take_private_inside_limit(size, stream);
    const bool capturing = is_capturing();
    if (!engine_.try_set_outside(native_reserved() + growth_for(size), !capturing)) refuse(size);
    void* data = before_.raw_alloc_with_stream(size, stream);
    if (!capturing) count_native();
    return data;
  }

  // While a private pool is open torch's allocator gives none of its other cache back, so that nobody's leaving helps.
  void* take_private_inside_limit(std::size_t size, cudaStream_t stream) {
    try {
      return before_.raw_alloc_with_stream(size, stream);
    } catch (const c10::OutOfMemoryError&) {
      refuse(size);
    }
  }

  [[nodiscard]] Bytes native_reserved() const { return {before_.getDeviceStats(index_).reserved_bytes[0].current}; }

  // What torch's allocator takes at most from the card for a request (get_allocation_size in CUDACachingAllocator.cpp).
  [[nodiscard]] static Bytes growth_for(std::size_t size) {
    constexpr Bytes kSmall = 1_MiB, kSmallSegment = 2_MiB, kMiddle = 10_MiB;
    const Bytes asked = bytes_of(size);
    if (asked <= kSmall) return kSmallSegment;
    const Bytes segment{static_cast<std::int64_t>(c10::CachingAllocator::AcceleratorAllocatorConfig::large_segment_size())};
    return asked < kMiddle ? segment : round_up(asked, kSmallSegment);
  }

  [[noreturn]] void refuse(std::size_t size) {
    ++refused_;
    std::vector<native_api::OutOfMemoryObserver> observers;
    {
      const std::lock_guard lock(observing_);
      observers = observers_;
    }
    const EngineStats stats = engine_.stats();
    for (const auto& observer : observers) {
      observer(index_, static_cast<std::size_t>(stats.live.count), static_cast<std::size_t>(card_.facts().memory.count),
               static_cast<std::size_t>(card_.free_memory().count));
    }
    if (must_be_loud()) throw_workspace_shortage(adapter_, bytes_of(size));
    throw_out_of_memory(adapter_, bytes_of(size));
  }

  // A convolution that is refused its workspace takes another plan: other bits. Benchmarking tries sizes on purpose, and
  // whoever chose adaptive workspaces wants the other plan; a replay never does.
  [[nodiscard]] bool must_be_loud() const {
    const Frame* frame = current_frame();
    if (frame == nullptr || frame->op->operator_name().name.find("conv") == std::string::npos) return false;
    return frame->replay || !(adaptive_workspace_ || at::globalContext().benchmarkCuDNN());
  }

  [[nodiscard]] bool is_ours(const void* data) const {
    const auto lock = engine_.lock();
    return engine_.find(data) != nullptr;
  }

  void refuse_sharing(const void* data) const {
    TORCH_CHECK(!is_ours(data),
                "spillway: memory under a budget cannot be shared with another process by a CUDA IPC handle, because it "
                "may move; send a CPU copy instead, or allocate the tensor before spillway.enable()");
  }

  const bool adaptive_workspace_;
  Adapter& adapter_;
  Engine& engine_;
  CudaDevice& card_;
  CUDAAllocator& before_;
  const DeviceIndex index_;
  const bool native_places_;  // `before_` places the engine's memory: its figures are whole
  std::atomic<double> fraction_ = 1.0;
  std::atomic<std::int64_t> refused_ = 0;
  PrivatePools pools_;
  std::mutex observing_;
  std::vector<native_api::OutOfMemoryObserver> observers_;
};

CudaAllocator* the_allocator = nullptr;

}  // namespace

StreamId current_cuda_stream(CudaDevice& card, c10::DeviceIndex index) {
  struct Known {
    cudaStream_t stream = nullptr;
    StreamId id;
    bool set = false;
  };
  thread_local Known last;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(index).stream();
  if (!last.set || last.stream != stream) last = {stream, card.adopt_stream(stream), true};
  return last.id;
}

// A capture opens a pool first: the driver is asked only while one is open.
bool is_capturing() {
  if (the_allocator == nullptr || !the_allocator->has_private_pools()) return false;
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

void free_native(void* data) { the_allocator->free_native(data); }

void install_cuda_allocator(Adapter& adapter, CudaDevice& card, bool adaptive_workspace) {
  SPILLWAY_ENSURE(the_allocator == nullptr, "one allocator per process");
  CUDAAllocator* before = native_api::get();
  before->emptyCache();
  the_allocator = new CudaAllocator(adapter, card, *before, adaptive_workspace);
  the_allocator->count_native();
  c10::SetAllocator(c10::kCUDA, the_allocator, /*priority=*/255);
  native_api::allocator.store(the_allocator);
}

}  // namespace spillway
