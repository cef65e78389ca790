#include <math_constants.h>

#include <algorithm>

#include "torch/cuda/max_pool.h"
#include "torch/cuda/numbers.cuh"

namespace spillway {

namespace {

// As torch's kernel compares: the later of equals does not count, every NaN does, and where nothing is above minus infinity the place
// is that of the plane's first pixel. Values go as they are, a NaN's bits too.
template <class T, int N>
struct Largest {
  T value[N];
  int where[N];

  __device__ Largest() {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      value[i] = narrow<T>(-CUDART_INF_F);
      where[i] = 0;
    }
  }

  __device__ void look_at(const Vector<T, N>& x, int place) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float seen = widen(x.at[i]);
      if (!(seen > widen(value[i])) && !isnan(seen)) continue;
      value[i] = x.at[i];
      where[i] = place;
    }
  }
};

// The part of one window that lies in the image.
struct Window {
  int left, right, top, bottom;
};

__device__ Window window_of(const MaxPool& pool, unsigned column, unsigned line) {
  const int left = static_cast<int>(column) * pool.step_width - pool.before_width, top = static_cast<int>(line) * pool.step_height - pool.before_height;
  return {max(left, 0), min(left + pool.window_width, static_cast<int>(pool.width)), max(top, 0), min(top + pool.window_height, static_cast<int>(pool.height))};
}

// `kSide`: no window is higher or wider, and its pixels are read before any is looked at; 0: one after the other, however many.
template <class T, int N, int kSide>
__device__ Largest<T, N> largest_of(const Vector<T, N>* plane, const Window& in, int width, std::int64_t columns) {
  Largest<T, N> largest;
  if constexpr (kSide == 0) {
    for (int y = in.top; y < in.bottom; ++y) {
      for (int at = y * width + in.left; at < y * width + in.right; ++at) largest.look_at(plane[at * columns], at);
    }
  } else {
    Vector<T, N> seen[kSide][kSide];
#pragma unroll
    for (int y = 0; y < kSide; ++y) {
#pragma unroll
      for (int x = 0; x < kSide; ++x) {
        if (in.top + y < in.bottom && in.left + x < in.right) seen[y][x] = plane[((in.top + y) * width + in.left + x) * columns];
      }
    }
#pragma unroll
    for (int y = 0; y < kSide; ++y) {
#pragma unroll
      for (int x = 0; x < kSide; ++x) {
        if (in.top + y < in.bottom && in.left + x < in.right) largest.look_at(seen[y][x], (in.top + y) * width + in.left + x);
      }
    }
  }
  return largest;
}

// A thread has some channels of one window after the other.
template <class T, int N, int kSide>
__global__ void windows(const MaxPool pool, unsigned rows, std::int64_t columns) {
  const auto out_width = static_cast<unsigned>(pool.out_width), out_height = static_cast<unsigned>(pool.out_height);
  for (std::int64_t column = blockIdx.y * blockDim.x + threadIdx.x; column < columns; column += gridDim.y * blockDim.x) {
    for (unsigned row = blockIdx.x * blockDim.y + threadIdx.y; row < rows; row += gridDim.x * blockDim.y) {
      const unsigned line = row / out_width, image = line / out_height;
      const auto* plane = static_cast<const Vector<T, N>*>(pool.x) + image * pool.height * pool.width * columns + column;
      const Window window = window_of(pool, row - line * out_width, line - image * out_height);
      const Largest<T, N> found = largest_of<T, N, kSide>(plane, window, static_cast<int>(pool.width), columns);
      Vector<T, N> value;
      Vector<std::int64_t, N> where;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        value.at[i] = found.value[i];
        where.at[i] = found.where[i];
      }
      if (pool.largest != nullptr) static_cast<Vector<T, N>*>(pool.largest)[row * columns + column] = value;
      if (pool.where != nullptr) reinterpret_cast<Vector<std::int64_t, N>*>(pool.where)[row * columns + column] = where;
    }
  }
}

template <class T, int N>
cudaError_t launch(const MaxPool& pool, cudaStream_t stream) {
  const std::int64_t rows = pool.batch * pool.out_height * pool.out_width, columns = pool.channels / N;
  const std::int64_t wide = std::min(columns, kThreads), high = kThreads / wide;
  const std::int64_t across = std::min<std::int64_t>((columns + wide - 1) / wide, 64);
  const std::int64_t down = std::clamp<std::int64_t>(kMostBlocks / across, 1, (rows + high - 1) / high);
  const dim3 blocks(static_cast<unsigned>(down), static_cast<unsigned>(across)), threads(static_cast<unsigned>(wide), static_cast<unsigned>(high));
  const int side = std::max(pool.window_height, pool.window_width);
  if (side <= 2) windows<T, N, 2><<<blocks, threads, 0, stream>>>(pool, static_cast<unsigned>(rows), columns);
  else if (side == 3) windows<T, N, 3><<<blocks, threads, 0, stream>>>(pool, static_cast<unsigned>(rows), columns);
  else windows<T, N, 0><<<blocks, threads, 0, stream>>>(pool, static_cast<unsigned>(rows), columns);
  return cudaGetLastError();
}

// Two channels at once: places are written 16 bytes at a time.
template <class T>
cudaError_t choose_width(const MaxPool& pool, cudaStream_t stream) {
  const bool wide = pool.channels % 2 == 0 && is_aligned<2 * sizeof(T)>(pool.x) && is_aligned<2 * sizeof(T)>(pool.largest) && is_aligned<16>(pool.where);
  return wide ? launch<T, 2>(pool, stream) : launch<T, 1>(pool, stream);
}

}  // namespace

cudaError_t run_max_pool(const MaxPool& pool, cudaStream_t stream) {
  switch (pool.type) {
    case NormType::single: return choose_width<float>(pool, stream);
    case NormType::half: return choose_width<__half>(pool, stream);
    case NormType::brain: return choose_width<__nv_bfloat16>(pool, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace spillway
