#include "torch/cuda/cuda_op_clock.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

namespace spillway {

CudaOpClock::~CudaOpClock() {
  for (const cudaEvent_t event : events_) (void)cudaEventDestroy(event);
}

void CudaOpClock::record() {
  if (used_ == events_.size()) {
    cudaEvent_t event = nullptr;
    C10_CUDA_CHECK(cudaEventCreate(&event));
    events_.push_back(event);
  }
  C10_CUDA_CHECK(cudaEventRecord(events_[used_++], c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(card_))));
}

std::vector<Nanos> CudaOpClock::read() {
  std::vector<Nanos> times;
  if (used_ > 0) C10_CUDA_CHECK(cudaEventSynchronize(events_[used_ - 1]));
  for (std::size_t at = 0; at + 1 < used_; at += 2) {
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, events_[at], events_[at + 1]));
    times.push_back(Nanos{static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6)});
  }
  used_ = 0;
  return times;
}

}  // namespace spillway
