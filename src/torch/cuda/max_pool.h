// Max pooling over channels-last images: the largest of each window, and where in its plane it stands, as torch's own kernel finds
// them, at the memory's pace where that one takes three times as long.
//
// Plain pointers, no torch, as in norm_chain.h. Pixels of `channels` elements each, rows of pixels, images of rows; the same for both
// results. Windows lie side by side without gaps in them (no dilation), and each meets the image.
#pragma once

#include "torch/cuda/norm_chain.h"

namespace spillway {

struct MaxPool {
  NormType type = NormType::single;
  std::int64_t batch = 0, channels = 0, height = 0, width = 0, out_height = 0, out_width = 0;
  int window_height = 0, window_width = 0, step_height = 0, step_width = 0, before_height = 0, before_width = 0;  // the last two: padding
  const void* x = nullptr;
  void* largest = nullptr;       // null: not wanted
  std::int64_t* where = nullptr;  // null: not wanted
};

// Enqueues it; what the launch says.
[[nodiscard]] cudaError_t run_max_pool(const MaxPool& pool, cudaStream_t stream);

}  // namespace spillway
