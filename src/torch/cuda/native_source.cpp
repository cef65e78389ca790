#include "torch/cuda/native_source.h"

#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace spillway {

namespace {

// torch's allocator rounds every request up to this.
constexpr Bytes kRounding = 512_B;

}  // namespace

NativeSource::NativeSource(c10::cuda::CUDACachingAllocator::CUDAAllocator& native, CudaDevice& card, c10::DeviceIndex index)
    : native_(native), card_(card), index_(index), limit_(card.facts().memory) {}

// The copy streams are no streams of torch's.
cudaStream_t NativeSource::stream_for(StreamId on) const {
  return card_.is_adopted(on) ? card_.handle(on) : c10::cuda::getCurrentCUDAStream(index_).stream();
}

std::optional<Block> NativeSource::try_allocate(Bytes size, StreamId on) {
  const cudaStream_t stream = stream_for(on);
  void* data = nullptr;
  try {
    data = native_.raw_alloc_with_stream(static_cast<std::size_t>(size.count), stream);
  } catch (const c10::OutOfMemoryError&) {
    return std::nullopt;  // told in words by whoever asked, once nobody can leave
  }
  // The block may be in use by work already on its stream.
  if (!card_.is_adopted(on)) card_.wait(on, card_.record(card_.adopt_stream(stream)));
  granted_.fetch_add(1, std::memory_order_relaxed);
  const Live block{data, stream, round_up(size, kRounding)};
  const Bytes begin{static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(data))};
  return Block{number(block), {begin, begin + block.size}};
}

ChunkId NativeSource::number(const Live& block) {
  const std::lock_guard lock(mutex_);
  taken_ += block.size;
  if (unused_.empty()) {
    live_.push_back(block);
    return {static_cast<std::uint32_t>(live_.size() - 1)};
  }
  const std::uint32_t index = unused_.back();
  unused_.pop_back();
  live_[index] = block;
  return {index};
}

void NativeSource::free(const Block& block, std::span<const Tick> last_uses) {
  Live gone;
  {
    const std::lock_guard lock(mutex_);
    gone = std::exchange(live_[block.chunk.index], {});
    unused_.push_back(block.chunk.index);
    taken_ -= gone.size;
  }
  c10::DataPtr pointer(gone.data, gone.data, native_.raw_deleter(), c10::Device(c10::kCUDA, index_));
  for (const Tick tick : last_uses) {
    const cudaStream_t used_on = card_.handle(tick.stream);
    if (used_on != gone.stream) native_.recordStream(pointer, c10::cuda::getStreamFromExternal(used_on, index_));
  }
  // Dropped here: back to torch's allocator, which holds it until those streams have come this far.
}

std::optional<Window> NativeSource::find_window(Bytes size, const std::function<double(ChunkId)>& cost) const {
  struct Candidate {
    double per_byte, cost;
    std::uint32_t index;
    Bytes size;
  };
  std::vector<Candidate> candidates;
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < live_.size(); ++i) {
    const double price = live_[i].data == nullptr ? std::numeric_limits<double>::infinity() : cost({i});
    if (std::isfinite(price)) candidates.push_back({price / static_cast<double>(live_[i].size.count), price, i, live_[i].size});
  }
  std::ranges::sort(candidates, {}, [](const Candidate& one) { return std::pair(one.per_byte, one.index); });
  Window window;
  Bytes sum;
  for (const Candidate& one : candidates) {
    if (sum >= size) break;
    sum += one.size;
    window.cost += one.cost;
    window.evict.push_back({one.index});
  }
  if (window.evict.empty()) return std::nullopt;
  return window;
}

Bytes NativeSource::trim(bool) {
  const Bytes before = reserved();
  native_.emptyCache();
  return before - reserved();
}

// The fraction is rounded down, so that torch's limit is never above ours.
void NativeSource::set_limit(Bytes limit) {
  const Bytes whole = card_.facts().memory;
  {
    const std::lock_guard lock(mutex_);
    limit_ = std::min(limit, whole);
  }
  const double share = static_cast<double>(std::min(limit, whole).count) / static_cast<double>(whole.count);
  native_.setMemoryFraction(limit >= whole ? 1.0 : std::max(std::nextafter(share, 0.0), 0.0), index_);
}

Bytes NativeSource::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

Bytes NativeSource::reserved() const { return {native_.getDeviceStats(index_).reserved_bytes[0].current}; }

PoolStats NativeSource::stats() const {
  PoolStats stats;
  stats.reserved = reserved();
  const std::lock_guard lock(mutex_);
  stats.live = taken_;
  stats.largest_free = std::max(limit_ - stats.reserved, 0_B);
  return stats;
}

}  // namespace spillway
