#include <algorithm>

#include "torch/cuda/norm_chain.h"
#include "torch/cuda/numbers.cuh"

namespace spillway {

namespace {

struct Channel {
  float weight, bias, mean, invstd;
};

template <class W>
__device__ Channel channel_of(const NormChain& chain, std::int64_t at) {
  return {chain.weight == nullptr ? 1.0f : widen(static_cast<const W*>(chain.weight)[at]),
          chain.bias == nullptr ? 0.0f : widen(static_cast<const W*>(chain.bias)[at]), chain.mean[at], chain.invstd[at]};
}

// The roundings of torch's kernels: weight * (x - mean) * invstd + bias with the last product and sum fused by nvcc; the sum
// of the rounded result and z; the larger of that and zero, a NaN as it is.
template <class T>
__device__ T one(T x, const T* z, const Channel& channel, bool relu) {
  const float scaled = __fmul_rn(channel.weight, __fsub_rn(widen(x), channel.mean));
  T made = narrow<T>(__fmaf_rn(scaled, channel.invstd, channel.bias));
  if (z != nullptr) made = narrow<T>(__fadd_rn(widen(made), widen(*z)));
  if (relu && !isnan(widen(made))) made = narrow<T>(fmaxf(widen(made), 0.0f));
  return made;
}

template <class T, int N>
__device__ void several(const NormChain& chain, std::int64_t at, const Channel* channels, int step) {
  const auto x = static_cast<const Vector<T, N>*>(chain.x)[at];
  Vector<T, N> z, made;
  if (chain.z != nullptr) z = static_cast<const Vector<T, N>*>(chain.z)[at];
#pragma unroll
  for (int i = 0; i < N; ++i) made.at[i] = one(x.at[i], chain.z == nullptr ? nullptr : &z.at[i], channels[i * step], chain.relu);
  static_cast<Vector<T, N>*>(chain.out)[at] = made;
}

// A thread keeps its channels and goes down the rows.
template <class T, class W, int N>
__global__ void rows_of_channels(const NormChain chain, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t column = blockIdx.y * blockDim.x + threadIdx.x; column < columns; column += std::int64_t{gridDim.y} * blockDim.x) {
    Channel channels[N];
#pragma unroll
    for (int i = 0; i < N; ++i) channels[i] = channel_of<W>(chain, column * N + i);
    for (std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; row < rows; row += std::int64_t{gridDim.x} * blockDim.y) {
      several<T, N>(chain, row * columns + column, channels, 1);
    }
  }
}

// A row is one plane of one channel.
template <class T, class W, int N>
__global__ void planes(const NormChain chain, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; row < rows; row += std::int64_t{gridDim.x} * blockDim.y) {
    const Channel channel = channel_of<W>(chain, row % chain.channels);
    for (std::int64_t column = blockIdx.y * blockDim.x + threadIdx.x; column < columns; column += std::int64_t{gridDim.y} * blockDim.x) {
      several<T, N>(chain, row * columns + column, &channel, 0);
    }
  }
}

template <class T, class W, int N>
cudaError_t launch(const NormChain& chain, cudaStream_t stream) {
  const std::int64_t rows = chain.channels_last ? chain.batch * chain.plane : chain.batch * chain.channels;
  const std::int64_t columns = (chain.channels_last ? chain.channels : chain.plane) / N;
  const std::int64_t wide = std::min(columns, kThreads), high = kThreads / wide;
  const std::int64_t across = std::min<std::int64_t>((columns + wide - 1) / wide, 64);
  const std::int64_t down = std::clamp<std::int64_t>(kMostBlocks / across, 1, (rows + high - 1) / high);
  const dim3 blocks(static_cast<unsigned>(down), static_cast<unsigned>(across)), threads(static_cast<unsigned>(wide), static_cast<unsigned>(high));
  if (chain.channels_last) rows_of_channels<T, W, N><<<blocks, threads, 0, stream>>>(chain, rows, columns);
  else planes<T, W, N><<<blocks, threads, 0, stream>>>(chain, rows, columns);
  return cudaGetLastError();
}

template <class T, class W>
cudaError_t choose_width(const NormChain& chain, cudaStream_t stream) {
  constexpr int kWide = 16 / sizeof(T);
  const std::int64_t along = chain.channels_last ? chain.channels : chain.plane;
  const bool wide = along % kWide == 0 && is_aligned<16>(chain.x) && is_aligned<16>(chain.z) && is_aligned<16>(chain.out);
  return wide ? launch<T, W, kWide>(chain, stream) : launch<T, W, 1>(chain, stream);
}

}  // namespace

cudaError_t run_norm_chain(const NormChain& chain, cudaStream_t stream) {
  const bool wide_weight = chain.weight_type == NormType::single;
  switch (chain.type) {
    case NormType::single: return choose_width<float, float>(chain, stream);
    case NormType::half: return wide_weight ? choose_width<__half, float>(chain, stream) : choose_width<__half, __half>(chain, stream);
    case NormType::brain:
      return wide_weight ? choose_width<__nv_bfloat16, float>(chain, stream) : choose_width<__nv_bfloat16, __nv_bfloat16>(chain, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace spillway
