#include "torch/cuda/op_cost.h"

#include <algorithm>
#include <string_view>

namespace spillway {

namespace {

// An NVIDIA H200: 4.8 TB/s of memory of which kernels see about 3.5; dense arithmetic at what large matrix products reach.
constexpr double kBytesPerNano = 3500;
constexpr double kHalfFlopsPerNano = 550e3;
constexpr double kSingleFlopsPerNano = 45e3;
constexpr double kLaunchNanos = 5000;

using Sizes = c10::SmallVector<std::int64_t, 5>;

double count_of(const Sizes& sizes) {
  double count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<double>(size);
  return count;
}

const TensorFacts* argument(const TorchRecipe& recipe, std::size_t nth) {
  return nth < recipe.tensors.size() ? &recipe.tensors[nth].facts : nullptr;
}

// Of a product of the tensor arguments `left` and left + 1, whose last two dimensions are matrices.
double product_flops(const TorchRecipe& recipe, std::size_t left) {
  const TensorFacts* a = argument(recipe, left);
  const TensorFacts* b = argument(recipe, left + 1);
  if (a == nullptr || b == nullptr || b->sizes.empty()) return 0;
  return 2 * count_of(a->sizes) * static_cast<double>(b->sizes.back());
}

double convolution_flops(const TorchRecipe& recipe, std::size_t weight_at, double outputs) {
  const TensorFacts* weight = argument(recipe, weight_at);
  if (weight == nullptr || weight->sizes.empty()) return 0;
  return 2 * outputs * count_of(weight->sizes) / static_cast<double>(std::max<std::int64_t>(weight->sizes[0], 1));
}

double attention_flops(const TorchRecipe& recipe) {
  const TensorFacts* query = argument(recipe, 0);
  const TensorFacts* key = argument(recipe, 1);
  if (query == nullptr || key == nullptr || key->sizes.size() < 3) return 0;
  return 4 * count_of(query->sizes) * static_cast<double>(key->sizes[key->sizes.size() - 2]);
}

double flops(const TorchRecipe& recipe, double outputs) {
  const std::string_view name = recipe.op.schema().name();
  if (name == "aten::mm" || name == "aten::bmm") return product_flops(recipe, 0);
  if (name == "aten::addmm" || name == "aten::baddbmm" || name == "aten::_addmm_activation") return product_flops(recipe, 1);
  if (name == "aten::convolution" || name == "aten::cudnn_convolution") return convolution_flops(recipe, 1, outputs);
  if (name == "aten::convolution_backward") {
    const TensorFacts* gradient = argument(recipe, 0);
    return gradient == nullptr ? 0 : 2 * convolution_flops(recipe, 2, count_of(gradient->sizes));
  }
  const bool attention = name.find("attention") != std::string_view::npos;
  const bool backward = name.find("backward") != std::string_view::npos;
  return attention ? attention_flops(recipe) * (backward ? 2.5 : 1) : 0;
}

}  // namespace

Nanos estimate_cuda_time(const TorchRecipe& recipe, Bytes made) {
  double read = 0;
  bool half = true;
  for (const TensorSlot& slot : recipe.tensors) {
    read += count_of(slot.facts.sizes) * static_cast<double>(slot.facts.dtype.itemsize());
    half = half && slot.facts.dtype.itemsize() <= 2;
  }
  const auto written = static_cast<double>(std::max(made, 0_B).count);
  const double item = recipe.tensors.empty() ? 4 : static_cast<double>(recipe.tensors[0].facts.dtype.itemsize());
  const double arithmetic = flops(recipe, written / item) / (half ? kHalfFlopsPerNano : kSingleFlopsPerNano);
  return {static_cast<std::int64_t>(kLaunchNanos + std::max((read + written) / kBytesPerNano, arithmetic))};
}

}  // namespace spillway
