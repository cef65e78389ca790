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
template <class T, bool kAdds>
__device__ T one(T x, T z, const Channel& channel, bool relu) {
  const float scaled = __fmul_rn(channel.weight, __fsub_rn(widen(x), channel.mean));
  T made = narrow<T>(__fmaf_rn(scaled, channel.invstd, channel.bias));
  if (kAdds) made = narrow<T>(__fadd_rn(widen(made), widen(z)));
  if (relu && !isnan(widen(made))) made = narrow<T>(fmaxf(widen(made), 0.0f));
  return made;
}

template <class T, int N, bool kAdds>
__device__ Vector<T, N> several(const Vector<T, N>& x, const Vector<T, N>& z, const Channel* channels, int step, bool relu) {
  Vector<T, N> made;
#pragma unroll
  for (int i = 0; i < N; ++i) made.at[i] = one<T, kAdds>(x.at[i], z.at[i], channels[i * step], relu);
  return made;
}

// Rows a thread has under way at once: one read of 16 bytes hides too little of the memory's latency, two (x and z) enough. And blocks
// for each of 132 multiprocessors. Of 1 to 8 rows and 4 to 64 blocks the best on average over ResNet-50's shapes on an H200:
// milliseconds for a GiB of 392 MiB made, 0.65 -> 0.58 without z, 0.81 -> 0.80 with it, where a plain copy takes 0.52.
constexpr int kRows = 4;
constexpr std::int64_t kBlocks = 132 * 8;

// A thread keeps its channels and goes up the rows: what is made last lies in the cache when its reader begins with it.
template <class T, class W, int N, bool kAdds>
__global__ void rows_of_channels(const NormChain chain, std::int64_t rows, std::int64_t columns) {
  const auto* x = static_cast<const Vector<T, N>*>(chain.x);
  const auto* z = static_cast<const Vector<T, N>*>(chain.z);
  auto* out = static_cast<Vector<T, N>*>(chain.out);
  constexpr int U = kAdds ? 1 : kRows;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.y;
  for (std::int64_t column = blockIdx.y * blockDim.x + threadIdx.x; column < columns; column += std::int64_t{gridDim.y} * blockDim.x) {
    Channel channels[N];
#pragma unroll
    for (int i = 0; i < N; ++i) channels[i] = channel_of<W>(chain, column * N + i);
    for (std::int64_t row = rows - 1 - (std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y); row >= 0; row -= U * stride) {
      Vector<T, N> xs[U], zs[U];
#pragma unroll
      for (int u = 0; u < U; ++u) {
        const std::int64_t at = row - u * stride;
        if (at >= 0) xs[u] = x[at * columns + column];
        if (kAdds && at >= 0) zs[u] = z[at * columns + column];
      }
#pragma unroll
      for (int u = 0; u < U; ++u) {
        const std::int64_t at = row - u * stride;
        if (at >= 0) out[at * columns + column] = several<T, N, kAdds>(xs[u], zs[u], channels, 1, chain.relu);
      }
    }
  }
}

// A row is one plane of one channel.
template <class T, class W, int N, bool kAdds>
__global__ void planes(const NormChain chain, std::int64_t rows, std::int64_t columns) {
  const auto* x = static_cast<const Vector<T, N>*>(chain.x);
  const auto* z = static_cast<const Vector<T, N>*>(chain.z);
  for (std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; row < rows; row += std::int64_t{gridDim.x} * blockDim.y) {
    const Channel channel = channel_of<W>(chain, row % chain.channels);
    for (std::int64_t column = blockIdx.y * blockDim.x + threadIdx.x; column < columns; column += std::int64_t{gridDim.y} * blockDim.x) {
      const std::int64_t at = row * columns + column;
      static_cast<Vector<T, N>*>(chain.out)[at] = several<T, N, kAdds>(x[at], kAdds ? z[at] : x[at], &channel, 0, chain.relu);
    }
  }
}

template <class T, class W, int N, bool kAdds>
cudaError_t launch(const NormChain& chain, cudaStream_t stream) {
  const std::int64_t rows = chain.channels_last ? chain.batch * chain.plane : chain.batch * chain.channels;
  const std::int64_t columns = (chain.channels_last ? chain.channels : chain.plane) / N;
  const std::int64_t wide = std::min(columns, kThreads), high = kThreads / wide;
  const std::int64_t across = std::min<std::int64_t>((columns + wide - 1) / wide, 64);
  const std::int64_t down = std::clamp<std::int64_t>((chain.channels_last ? kBlocks : kMostBlocks) / across, 1, (rows + high - 1) / high);
  const dim3 blocks(static_cast<unsigned>(down), static_cast<unsigned>(across)), threads(static_cast<unsigned>(wide), static_cast<unsigned>(high));
  if (chain.channels_last) rows_of_channels<T, W, N, kAdds><<<blocks, threads, 0, stream>>>(chain, rows, columns);
  else planes<T, W, N, kAdds><<<blocks, threads, 0, stream>>>(chain, rows, columns);
  return cudaGetLastError();
}

template <class T, class W>
cudaError_t choose_width(const NormChain& chain, cudaStream_t stream) {
  constexpr int kWide = 16 / sizeof(T);
  const std::int64_t along = chain.channels_last ? chain.channels : chain.plane;
  const bool wide = along % kWide == 0 && is_aligned<16>(chain.x) && is_aligned<16>(chain.z) && is_aligned<16>(chain.out);
  if (chain.z != nullptr) return wide ? launch<T, W, kWide, true>(chain, stream) : launch<T, W, 1, true>(chain, stream);
  return wide ? launch<T, W, kWide, false>(chain, stream) : launch<T, W, 1, false>(chain, stream);
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
