// One pass over memory for what torch does in two or three: batch norm by saved statistics, then an addition, then ReLU, each
// rounded to the tensor's type before the next, as torch's own kernels round.
//
// Plain pointers, no torch: torch's headers and nvcc need not meet. `x`, `z` and `out` lie alike: [rows of channels] when
// `channels_last`, planes of `plane` elements otherwise.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace spillway {

enum class NormType : std::uint8_t { single, half, brain };  // float, half, bfloat16

struct NormChain {
  NormType type = NormType::single, weight_type = NormType::single;
  bool channels_last = false, relu = false;
  std::int64_t batch = 0, channels = 0, plane = 0;
  const void* x = nullptr;
  const void* z = nullptr;       // null: nothing is added
  const void* weight = nullptr;  // null: one
  const void* bias = nullptr;    // null: zero
  const float* mean = nullptr;
  const float* invstd = nullptr;
  void* out = nullptr;
};

// Enqueues it; what the launch says.
[[nodiscard]] cudaError_t run_norm_chain(const NormChain& chain, cudaStream_t stream);

}  // namespace spillway
