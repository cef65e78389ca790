#include "torch/roofline.h"

#include <algorithm>
#include <cstdint>

#include "torch/torch_recipe.h"

namespace spillway {

namespace {

using Sizes = c10::SmallVector<std::int64_t, 5>;

// A copy the reaction asks for is waited for, and comes beside others: about 50 GB/s each way where 55 are reached alone (NVIDIA
// H200, gpu_tests --gtest_filter='CudaFigures.*').
constexpr double kBesideOthers = 1.1;

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

// Of queries, which are the tensor argument `first`, and keys, the next.
double attention_flops(const TorchRecipe& recipe, std::size_t first) {
  const TensorFacts* query = argument(recipe, first);
  const TensorFacts* key = argument(recipe, first + 1);
  if (query == nullptr || key == nullptr || key->sizes.size() < 3) return 0;
  return 4 * count_of(query->sizes) * static_cast<double>(key->sizes[key->sizes.size() - 2]);
}

double flops(const TorchRecipe& recipe, double outputs) {
  switch (recipe.arithmetic) {
    case Arithmetic::little: return 0;
    case Arithmetic::product: return product_flops(recipe, 0);
    case Arithmetic::added_product: return product_flops(recipe, 1);
    case Arithmetic::convolution: return convolution_flops(recipe, 1, outputs);
    case Arithmetic::convolution_backward: {
      const TensorFacts* gradient = argument(recipe, 0);
      return gradient == nullptr ? 0 : 2 * convolution_flops(recipe, 2, count_of(gradient->sizes));
    }
    case Arithmetic::attention: return attention_flops(recipe, 0);
    case Arithmetic::attention_backward: return attention_flops(recipe, 1) * 2.5;
  }
  return 0;
}

// An operator is one object for the life of the process.
std::uint64_t kind_of(const TorchRecipe& recipe) { return reinterpret_cast<std::uintptr_t>(&recipe.op.schema()); }

}  // namespace

Costs card_costs(const Rates& rates) {
  return {.out_nanos_per_byte = 1 / rates.out_bytes_per_nano, .in_nanos_per_byte = 1 / rates.in_bytes_per_nano, .out_price = rates.out_price,
          .in_price = rates.in_price, .per_copy = 10_us, .per_replay = 4_us};
}

double card_move_nanos(const Costs& costs) { return (costs.out_nanos_per_byte + costs.in_nanos_per_byte) * kBesideOthers; }

Nanos Roofline::estimate_pass(const TorchRecipe& recipe, Bytes made) const {
  double read = 0;
  for (const TensorSlot& slot : recipe.tensors) read += count_of(slot.facts.sizes) * static_cast<double>(slot.facts.dtype.itemsize());
  const auto written = static_cast<double>(std::max(made, 0_B).count);
  // The first is of the kind that is multiplied; statistics and seeds after it may be wider.
  const double item = recipe.tensors.empty() ? 4 : static_cast<double>(recipe.tensors[0].facts.dtype.itemsize());
  const double arithmetic = flops(recipe, written / item) / (item <= 2 ? rates_.half_flops_per_nano : rates_.single_flops_per_nano);
  return {static_cast<std::int64_t>(rates_.launch_nanos + std::max((read + written) / rates_.bytes_per_nano, arithmetic))};
}

Nanos Roofline::estimate(const TorchRecipe& recipe, Bytes made) const {
  const double factor = correction_.factor(kind_of(recipe));
  return {static_cast<std::int64_t>(static_cast<double>(estimate_pass(recipe, made).count) * factor)};
}

void Roofline::expect(const TorchRecipe* recipe, Bytes made) {
  if (recipe == nullptr) correction_.expect(0, 0_ns);
  else correction_.expect(kind_of(*recipe), estimate_pass(*recipe, made));
}

}  // namespace spillway
