// What our kernels share: numbers as torch rounds them, several at once, and how many threads.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace spillway {

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(__half value) { return __half2float(value); }
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T>
__device__ T narrow(float value);
template <>
__device__ inline float narrow<float>(float value) { return value; }
template <>
__device__ inline __half narrow<__half>(float value) { return __float2half_rn(value); }
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float value) { return __float2bfloat16_rn(value); }

template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  T at[N];
};

template <int kBytes>
bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % kBytes == 0; }

constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kMostBlocks = 132 * 64;  // an H200 has 132 multiprocessors; the rest is the loops' work; with 16 for each a dropout's sum takes 5 % longer

}  // namespace spillway
