// Nothing without nvcc: see src/torch/CMakeLists.txt.
#if SPILLWAY_HAS_KERNELS
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "torch/cuda/dropout_sum.h"
#include "torch/cuda/layer_norm.h"
#include "torch/cuda/max_pool.h"
#include "torch/cuda/norm_chain.h"
#include "torch/fused.h"
#include "torch/lean.h"

namespace spillway {

namespace {

NormType type_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat ? NormType::single : tensor.scalar_type() == at::kHalf ? NormType::half : NormType::brain;
}

const void* address(const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; }

bool is_statistic(const at::Tensor& tensor, std::int64_t channels) {
  return tensor.scalar_type() == at::kFloat && tensor.is_contiguous() && tensor.numel() == channels;
}

// Single precision or the input's, both alike.
bool is_affine(const FusedCall& call, std::int64_t channels) {
  for (const at::Tensor* tensor : {&call.weight, &call.bias}) {
    if (!tensor->defined()) continue;
    const bool known = tensor->scalar_type() == at::kFloat || tensor->scalar_type() == call.x.scalar_type();
    if (!known || !tensor->is_contiguous() || tensor->numel() != channels) return false;
  }
  return !call.weight.defined() || !call.bias.defined() || call.weight.scalar_type() == call.bias.scalar_type();
}

at::Tensor run_layer_norm(const FusedCall& call) {
  const TensorFacts& made = (call.chain.reader != nullptr ? call.chain.reader : call.chain.maker)->results[0];
  const std::int64_t columns = call.weight.numel(), rows = call.x.numel() / columns;
  if (!is_statistic(call.sides[0], rows) || !is_statistic(call.sides[1], rows) || call.bias.numel() != columns) return {};
  at::Tensor out = at::detail::empty_strided_cuda(made.sizes, made.strides, made.dtype.toScalarType(), call.x.device());
  const LayerNorm norm{.type = type_of(call.x),
                       .out_type = type_of(out),
                       .rows = rows,
                       .columns = columns,
                       .x = address(call.x),
                       .weight = address(call.weight),
                       .bias = address(call.bias),
                       .mean = static_cast<const float*>(address(call.sides[0])),
                       .rstd = static_cast<const float*>(address(call.sides[1])),
                       .out = out.mutable_data_ptr()};
  C10_CUDA_CHECK(run_layer_norm(norm, at::cuda::getCurrentCUDAStream()));
  return out;
}

at::Tensor run_batch_norm(const FusedCall& call) {
  const TensorFacts& made = call.chain.maker->results[0];
  const std::int64_t channels = made.sizes[1];
  if (!is_statistic(call.sides[0], channels) || !is_statistic(call.sides[1], channels) || !is_affine(call, channels)) return {};
  at::Tensor out = at::detail::empty_strided_cuda(made.sizes, made.strides, call.x.scalar_type(), call.x.device());
  const NormChain chain{.type = type_of(call.x),
                        .weight_type = call.weight.defined() ? type_of(call.weight) : call.bias.defined() ? type_of(call.bias) : NormType::single,
                        .channels_last = order_of(made) == Order::channels_last,
                        .relu = call.chain.relu,
                        .batch = made.sizes[0],
                        .channels = channels,
                        .plane = made.sizes[2] * made.sizes[3],
                        .x = address(call.x),
                        .z = address(call.z),
                        .weight = address(call.weight),
                        .bias = address(call.bias),
                        .mean = static_cast<const float*>(address(call.sides[0])),
                        .invstd = static_cast<const float*>(address(call.sides[1])),
                        .out = out.mutable_data_ptr()};
  C10_CUDA_CHECK(run_norm_chain(chain, at::cuda::getCurrentCUDAStream()));
  return out;
}

at::Tensor run_dropout_sum(const FusedCall& call) {
  const TensorFacts& made = call.chain.reader->results[0];
  at::Tensor out = at::detail::empty_strided_cuda(made.sizes, made.strides, made.dtype.toScalarType(), call.x.device());
  const DropoutSum sum{.type = type_of(call.x),
                       .out_type = type_of(out),
                       .count = call.x.numel(),
                       .scale = static_cast<float>(dropout_scale(*call.chain.maker)),
                       .x = address(call.x),
                       .mask = static_cast<const bool*>(address(call.sides[0])),
                       .z = address(call.z),
                       .out = out.mutable_data_ptr()};
  C10_CUDA_CHECK(run_dropout_sum(sum, at::cuda::getCurrentCUDAStream()));
  return out;
}

// As torch reads such an argument: one number is both.
std::array<int, 2> pair_of(const c10::IValue& value, std::array<int, 2> otherwise) {
  const auto given = value.toIntVector();
  if (given.empty()) return otherwise;
  return {static_cast<int>(given[0]), static_cast<int>(given[given.size() > 1 ? 1 : 0])};
}

MaxPool pool_of(const TwinCall& call) {
  const at::Tensor& x = call.arguments[0].toTensor();
  const TensorFacts& made = call.recipe.results[0];
  const auto window = pair_of(call.arguments[1], {}), step = pair_of(call.arguments[2], window), before = pair_of(call.arguments[3], {});
  return {.type = type_of(x),
          .batch = x.size(0),
          .channels = x.size(1),
          .height = x.size(2),
          .width = x.size(3),
          .out_height = made.sizes[2],
          .out_width = made.sizes[3],
          .window_height = window[0],
          .window_width = window[1],
          .step_height = step[0],
          .step_width = step[1],
          .before_height = before[0],
          .before_width = before[1],
          .x = address(x)};
}

}  // namespace

TwinResults run_max_pool_cuda(const TwinCall& call) {
  const at::Tensor& x = call.arguments[0].toTensor();
  const c10::cuda::CUDAGuard there(x.device());
  MaxPool pool = pool_of(call);
  TwinResults results(2);
  for (std::size_t at = 0; at < results.size(); ++at) {
    const TensorFacts& made = call.recipe.results[at];
    if (call.wanted[at]) results[at] = at::detail::empty_strided_cuda(made.sizes, made.strides, made.dtype.toScalarType(), x.device());
  }
  if (call.wanted[0]) pool.largest = results[0].mutable_data_ptr();
  if (call.wanted[1]) pool.where = results[1].mutable_data_ptr<std::int64_t>();
  C10_CUDA_CHECK(run_max_pool(pool, at::cuda::getCurrentCUDAStream()));
  return results;
}

at::Tensor run_fused_cuda(const FusedCall& call) {
  const c10::cuda::CUDAGuard there(call.x.device());
  switch (call.chain.maker->lean->fuses) {
    case Fuses::casts: return run_layer_norm(call);
    case Fuses::sums: return run_dropout_sum(call);
    default: return run_batch_norm(call);
  }
}

}  // namespace spillway
#endif  // SPILLWAY_HAS_KERNELS
