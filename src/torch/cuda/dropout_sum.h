// Dropout by its saved mask, and the sum of its result and another tensor, in one pass over memory: each rounded as torch's own
// kernels round.
//
// Plain pointers, no torch, as in norm_chain.h. All are `count` elements, one after the other.
#pragma once

#include "torch/cuda/norm_chain.h"

namespace spillway {

struct DropoutSum {
  NormType type = NormType::single, out_type = NormType::single;  // of x; of z and the sum: the same, or single
  std::int64_t count = 0;
  float scale = 1;
  const void* x = nullptr;
  const bool* mask = nullptr;
  const void* z = nullptr;
  void* out = nullptr;
};

// Enqueues it; what the launch says.
[[nodiscard]] cudaError_t run_dropout_sum(const DropoutSum& sum, cudaStream_t stream);

}  // namespace spillway
