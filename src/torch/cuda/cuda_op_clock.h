// OpClock by CUDA events, two an operator, kept from step to step.
#pragma once

#include <cuda_runtime_api.h>

#include "torch/op_clock.h"

namespace spillway {

class CudaOpClock final : public OpClock {
 public:
  explicit CudaOpClock(int card) : card_(card) {}
  ~CudaOpClock() override;
  CudaOpClock(const CudaOpClock&) = delete;
  CudaOpClock& operator=(const CudaOpClock&) = delete;

  void start() override { record(); }
  void stop() override { record(); }
  [[nodiscard]] std::vector<Nanos> read() override;

 private:
  void record();

  int card_;
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
};

}  // namespace spillway
