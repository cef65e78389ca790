#include "torch/cuda/cuda_op_clock.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "torch/cuda/spin.h"

namespace spillway {

namespace {

constexpr Nanos kBackToBack{3'000};   // two events with nothing between them are nearer than that
constexpr Nanos kMostLaunch{10'000};  // until an op's first kernel starts; later launches overlap with kernels
constexpr Nanos kLeast{2'000};        // of a kernel, however small
constexpr std::chrono::microseconds kLook{200};

}  // namespace

CudaOpClock::Marks::~Marks() {
  for (const cudaEvent_t event : events) (void)cudaEventDestroy(event);
}

// The host's time goes beside the event: right after the one before an op, right before the one after it.
bool CudaOpClock::start() {
  const std::lock_guard lock(mutex_);
  if (whose_ == std::thread::id()) whose_ = std::this_thread::get_id();
  if (whose_ != std::this_thread::get_id()) return false;
  if (marks_->used % 2 != 0) --marks_->used, marks_->host.pop_back();  // an op that failed
  record();
  marks_->host.push_back(std::chrono::steady_clock::now());
  return true;
}

void CudaOpClock::restart() {
  const std::lock_guard lock(mutex_);
  if (whose_ != std::this_thread::get_id() || marks_->used % 2 == 0) return;  // no op of this thread is timed now
  --marks_->used;
  record();
  marks_->host.back() = std::chrono::steady_clock::now();
}

void CudaOpClock::stop() {
  const std::lock_guard lock(mutex_);
  if (whose_ != std::this_thread::get_id() || marks_->used % 2 == 0) return;  // another thread's take came between
  marks_->host.push_back(std::chrono::steady_clock::now());
  record();
}

// Without kernels of our own the host is as late as it is.
void CudaOpClock::hold_back([[maybe_unused]] Nanos time) {
#if SPILLWAY_HAS_KERNELS
  C10_CUDA_CHECK(spin(time.count, c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(card_))));
#endif
}

void CudaOpClock::record() {
  if (marks_->used == marks_->events.size()) {
    cudaEvent_t event = nullptr;
    C10_CUDA_CHECK(cudaEventCreate(&event));
    marks_->events.push_back(event);
  }
  C10_CUDA_CHECK(cudaEventRecord(marks_->events[marks_->used++], c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(card_))));
}

OpClock::Reading CudaOpClock::take() {
  const std::lock_guard lock(mutex_);
  whose_ = {};
  if (marks_->used == 0) return nullptr;
  const auto taken = marks_;
  others_.push_back(taken);
  const auto idle = std::ranges::find_if(others_, [](const auto& marks) { return marks.use_count() == 1; });
  if (idle == others_.end()) {
    marks_ = std::make_shared<Marks>();
  } else {
    marks_ = std::move(*idle);
    others_.erase(idle);
    marks_->used = 0;
    marks_->host.clear();
  }
  return [taken, card = card_] { return taken->read(card); };
}

Nanos CudaOpClock::Marks::between(std::size_t first, std::size_t second) const {
  float milliseconds = 0;
  C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, events[first], events[second]));
  return Nanos{static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6)};
}

// See Note [When the host is late]. The device is asked from time to time: waiting for an event keeps a core busy.
std::vector<Nanos> CudaOpClock::Marks::read(int card) const {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(card));
  std::vector<Nanos> times;
  for (std::size_t at = 0; at + 1 < used; at += 2) {
    for (;;) {  // of each: ops may run on several streams
      const cudaError_t found = cudaEventQuery(events[at + 1]);
      if (found != cudaErrorNotReady) {
        C10_CUDA_CHECK(found);
        break;
      }
      (void)cudaGetLastError();
      std::this_thread::sleep_for(kLook);
    }
    const Nanos whole = between(at, at + 1);
    const bool ran_dry = at == 0 || between(at - 1, at) > kBackToBack;
    const Nanos took{ran_dry ? std::chrono::duration_cast<std::chrono::nanoseconds>(host[at + 1] - host[at]).count() : 0};
    const Nanos launch = std::min(took, kMostLaunch);
    times.push_back(std::max(whole - launch, std::min(whole, kLeast)));
  }
  return times;
}

}  // namespace spillway
