// Layer norm by saved statistics, and the cast of its result, in one pass over memory: each rounded as torch's own kernels
// round.
//
// Plain pointers, no torch, as in norm_chain.h. `x` and `out` are `rows` rows of `columns`, one after the other.
#pragma once

#include "torch/cuda/norm_chain.h"

namespace spillway {

struct LayerNorm {
  NormType type = NormType::single, out_type = NormType::single;  // weight and bias are of the first
  std::int64_t rows = 0, columns = 0;
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  void* out = nullptr;
};

// Enqueues it; what the launch says.
[[nodiscard]] cudaError_t run_layer_norm(const LayerNorm& norm, cudaStream_t stream);

}  // namespace spillway
