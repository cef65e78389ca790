#include <algorithm>

#include "torch/cuda/layer_norm.h"
#include "torch/cuda/numbers.cuh"

namespace spillway {

namespace {

constexpr int kWide = 4;

// The roundings of torch's kernels: weight * (rstd * (x - mean)) + bias with the last product and sum fused by nvcc; then the cast.
template <class T, class Out>
__device__ Out one(T x, float mean, float rstd, float weight, float bias) {
  return narrow<Out>(widen(narrow<T>(__fmaf_rn(weight, __fmul_rn(rstd, __fsub_rn(widen(x), mean)), bias))));
}

// A thread keeps its columns and goes down the rows.
template <class T, class Out, int N>
__global__ void down_the_rows(const LayerNorm norm, std::int64_t columns) {
  const std::int64_t column = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float weight[N], bias[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    weight[i] = widen(static_cast<const T*>(norm.weight)[column * N + i]);
    bias[i] = widen(static_cast<const T*>(norm.bias)[column * N + i]);
  }
  for (std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; row < norm.rows; row += std::int64_t{gridDim.x} * blockDim.y) {
    const float mean = norm.mean[row], rstd = norm.rstd[row];
    const auto x = static_cast<const Vector<T, N>*>(norm.x)[row * columns + column];
    Vector<Out, N> made;
#pragma unroll
    for (int i = 0; i < N; ++i) made.at[i] = one<T, Out>(x.at[i], mean, rstd, weight[i], bias[i]);
    static_cast<Vector<Out, N>*>(norm.out)[row * columns + column] = made;
  }
}

template <class T, class Out, int N>
cudaError_t launch(const LayerNorm& norm, cudaStream_t stream) {
  const std::int64_t columns = norm.columns / N, wide = std::min(columns, kThreads), high = kThreads / wide;
  const std::int64_t across = (columns + wide - 1) / wide;
  const std::int64_t down = std::min(std::max<std::int64_t>(kMostBlocks / across, 1), (norm.rows + high - 1) / high);
  const dim3 blocks(static_cast<unsigned>(down), static_cast<unsigned>(across)), threads(static_cast<unsigned>(wide), static_cast<unsigned>(high));
  down_the_rows<T, Out, N><<<blocks, threads, 0, stream>>>(norm, columns);
  return cudaGetLastError();
}

template <class T, class Out>
cudaError_t choose_width(const LayerNorm& norm, cudaStream_t stream) {
  const bool wide = norm.columns % kWide == 0 && is_aligned<kWide * sizeof(T)>(norm.x) && is_aligned<kWide * sizeof(Out)>(norm.out);
  return wide ? launch<T, Out, kWide>(norm, stream) : launch<T, Out, 1>(norm, stream);
}

template <class T>
cudaError_t choose_result(const LayerNorm& norm, cudaStream_t stream) {
  switch (norm.out_type) {
    case NormType::single: return choose_width<T, float>(norm, stream);
    case NormType::half: return choose_width<T, __half>(norm, stream);
    case NormType::brain: return choose_width<T, __nv_bfloat16>(norm, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t run_layer_norm(const LayerNorm& norm, cudaStream_t stream) {
  switch (norm.type) {
    case NormType::single: return choose_result<float>(norm, stream);
    case NormType::half: return choose_result<__half>(norm, stream);
    case NormType::brain: return choose_result<__nv_bfloat16>(norm, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace spillway
