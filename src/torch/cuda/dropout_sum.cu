#include <algorithm>

#include "torch/cuda/dropout_sum.h"
#include "torch/cuda/numbers.cuh"

namespace spillway {

namespace {

constexpr int kWide = 4;

// The roundings of torch's kernels: x * mask * scale, to the tensor's type; then the sum.
template <class T, class Out>
__device__ Out one(T x, bool kept, Out z, float scale) {
  const T dropped = narrow<T>(__fmul_rn(__fmul_rn(widen(x), kept ? 1.0f : 0.0f), scale));
  return narrow<Out>(__fadd_rn(widen(dropped), widen(z)));
}

template <class T, class Out, int N>
__global__ void along(const DropoutSum sum, std::int64_t count) {
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count; at += std::int64_t{gridDim.x} * blockDim.x) {
    const auto x = static_cast<const Vector<T, N>*>(sum.x)[at];
    const auto z = static_cast<const Vector<Out, N>*>(sum.z)[at];
    const auto mask = reinterpret_cast<const Vector<bool, N>*>(sum.mask)[at];
    Vector<Out, N> made;
#pragma unroll
    for (int i = 0; i < N; ++i) made.at[i] = one(x.at[i], mask.at[i], z.at[i], sum.scale);
    static_cast<Vector<Out, N>*>(sum.out)[at] = made;
  }
}

template <class T, class Out, int N>
cudaError_t launch(const DropoutSum& sum, cudaStream_t stream) {
  const std::int64_t count = sum.count / N, blocks = std::min((count + kThreads - 1) / kThreads, kMostBlocks);
  along<T, Out, N><<<static_cast<unsigned>(blocks), static_cast<unsigned>(kThreads), 0, stream>>>(sum, count);
  return cudaGetLastError();
}

template <class T, class Out>
cudaError_t choose_width(const DropoutSum& sum, cudaStream_t stream) {
  constexpr int kBytes = kWide * sizeof(Out);
  const bool wide = sum.count % kWide == 0 && is_aligned<kWide * sizeof(T)>(sum.x) && is_aligned<kBytes>(sum.z) && is_aligned<kBytes>(sum.out) && is_aligned<kWide>(sum.mask);
  return wide ? launch<T, Out, kWide>(sum, stream) : launch<T, Out, 1>(sum, stream);
}

}  // namespace

cudaError_t run_dropout_sum(const DropoutSum& sum, cudaStream_t stream) {
  const bool promoted = sum.out_type != sum.type;
  switch (sum.type) {
    case NormType::single: return choose_width<float, float>(sum, stream);
    case NormType::half: return promoted ? choose_width<__half, float>(sum, stream) : choose_width<__half, __half>(sum, stream);
    case NormType::brain: return promoted ? choose_width<__nv_bfloat16, float>(sum, stream) : choose_width<__nv_bfloat16, __nv_bfloat16>(sum, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace spillway
