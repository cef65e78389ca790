#include "torch/cuda/cuda_op_clock.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "torch/cuda/spin.h"

namespace spillway {

namespace {

constexpr Nanos kBackToBack{3'000};   // two events with nothing between them are nearer than that
constexpr Nanos kMostLaunch{10'000};  // until an op's first kernel starts; later launches overlap with kernels
constexpr Nanos kLeast{2'000};        // of a kernel, however small

}  // namespace

CudaOpClock::~CudaOpClock() {
  for (const cudaEvent_t event : events_) (void)cudaEventDestroy(event);
}

// The host's time goes beside the event: right after the one before an op, right before the one after it.
bool CudaOpClock::start() {
  const std::lock_guard lock(mutex_);
  if (whose_ == std::thread::id()) whose_ = std::this_thread::get_id();
  if (whose_ != std::this_thread::get_id()) return false;
  if (used_ % 2 != 0) --used_, host_.pop_back();  // an op that failed
  record();
  host_.push_back(std::chrono::steady_clock::now());
  return true;
}

void CudaOpClock::restart() {
  const std::lock_guard lock(mutex_);
  if (whose_ != std::this_thread::get_id() || used_ % 2 == 0) return;  // no op of this thread is timed now
  --used_;
  record();
  host_.back() = std::chrono::steady_clock::now();
}

void CudaOpClock::stop() {
  const std::lock_guard lock(mutex_);
  if (whose_ != std::this_thread::get_id() || used_ % 2 == 0) return;  // another thread's read came between
  host_.push_back(std::chrono::steady_clock::now());
  record();
}

// Without kernels of our own the host is as late as it is.
void CudaOpClock::hold_back([[maybe_unused]] Nanos time) {
#if SPILLWAY_HAS_KERNELS
  C10_CUDA_CHECK(spin(time.count, c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(card_))));
#endif
}

void CudaOpClock::record() {
  if (used_ == events_.size()) {
    cudaEvent_t event = nullptr;
    C10_CUDA_CHECK(cudaEventCreate(&event));
    events_.push_back(event);
  }
  C10_CUDA_CHECK(cudaEventRecord(events_[used_++], c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(card_))));
}

Nanos CudaOpClock::between(std::size_t first, std::size_t second) const {
  float milliseconds = 0;
  C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, events_[first], events_[second]));
  return Nanos{static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6)};
}

// See Note [When the host is late].
std::vector<Nanos> CudaOpClock::read() {
  const std::lock_guard lock(mutex_);
  std::vector<Nanos> times;
  for (std::size_t at = 0; at + 1 < used_; at += 2) {
    C10_CUDA_CHECK(cudaEventSynchronize(events_[at + 1]));  // of each: ops may run on several streams
    const Nanos whole = between(at, at + 1);
    const bool ran_dry = at == 0 || between(at - 1, at) > kBackToBack;
    const Nanos host{ran_dry ? std::chrono::duration_cast<std::chrono::nanoseconds>(host_[at + 1] - host_[at]).count() : 0};
    const Nanos launch = std::min(host, kMostLaunch);
    times.push_back(std::max(whole - launch, std::min(whole, kLeast)));
  }
  used_ = 0;
  host_.clear();
  whose_ = {};
  return times;
}

}  // namespace spillway
