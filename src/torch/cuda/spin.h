// Keeps a stream busy and does nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace spillway {

// Enqueues it; what the launch says.
[[nodiscard]] cudaError_t spin(std::int64_t nanos, cudaStream_t stream);

}  // namespace spillway
