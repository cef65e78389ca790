#include "torch/fused.h"

#include <c10/core/Scalar.h>

#include <algorithm>
#include <limits>

#include "torch/lean.h"

namespace spillway {

at::Tensor run_fused_cuda(const FusedCall& call) __attribute__((weak));

namespace {

constexpr std::size_t kMost = 3;  // norm, add, relu

bool lies_like(const TensorFacts& one, const TensorFacts& other) {
  return one.sizes == other.sizes && one.strides == other.strides && one.dtype == other.dtype;
}

// torch takes other kernels, with other roundings, for what 32 bits cannot index and for other layouts.
bool is_norm(const TorchRecipe& recipe) {
  if (recipe.lean == nullptr || recipe.lean->fuses != Fuses::changes || recipe.tensors.empty() || recipe.tensors[0].position != 0) return false;
  const TensorFacts& made = recipe.results[0];
  std::int64_t count = 1;
  for (const std::int64_t size : made.sizes) count *= size;
  const bool known = made.dtype == caffe2::TypeMeta::Make<float>() || made.dtype == caffe2::TypeMeta::Make<c10::Half>() ||
                     made.dtype == caffe2::TypeMeta::Make<c10::BFloat16>();
  return known && made.sizes.size() == 4 && made.offset == 0 && count < std::numeric_limits<std::int32_t>::max() &&
         order_of(made) != Order::other && lies_like(recipe.tensors[0].facts, made);
}

bool is_whole(const TorchRecipe& recipe, const TensorFacts& made) {
  return recipe.in_place && !recipe.tensors.empty() && recipe.tensors[0].position == 0 && recipe.tensors[0].facts.offset == 0 &&
         lies_like(recipe.tensors[0].facts, made);
}

bool is_add(const TorchRecipe& recipe, const TensorFacts& made) {
  if (recipe.op.schema().name() != "aten::add_" || !is_whole(recipe, made) || recipe.tensors.size() != 2) return false;
  const TensorFacts& other = recipe.tensors[1].facts;
  return recipe.arguments[2].isScalar() && recipe.arguments[2].toScalar().equal(1) && other.record != nullptr &&
         other.record != recipe.tensors[0].facts.record && lies_like(other, made);
}

// What the norm made is dead: its record and its only recipe are all that is left.
std::optional<FusedChain> find_straight(const TorchRecipe& cast) {
  if (!cast.straight) return std::nullopt;
  FusedChain chain{.cast = &cast};
  const Record& source = chain.source();
  if (source.residence != Residence::gone || source.recipes.size() != 1) return std::nullopt;
  chain.norm = static_cast<const TorchRecipe*>(source.recipes[0]);
  return chain;
}

bool is_relu(const TorchRecipe& recipe, const TensorFacts& made) {
  return recipe.op.schema().name() == "aten::relu_" && is_whole(recipe, made);
}

}  // namespace

std::array<std::int32_t, 3> FusedChain::places() const {
  return norm->lean->fuses == Fuses::casts ? std::array{0, 2, 3} : std::array{0, 1, 2};
}

std::optional<FusedChain> find_fused_chain(std::span<Recipe* const> recipes) {
  if (recipes.empty() || recipes.size() > kMost || !has_fused_kernels()) return std::nullopt;
  if (recipes.size() == 1) return find_straight(static_cast<const TorchRecipe&>(*recipes[0]));
  FusedChain chain{.norm = static_cast<const TorchRecipe*>(recipes[0])};
  if (!is_norm(*chain.norm)) return std::nullopt;
  const TensorFacts& made = chain.norm->results[0];
  for (const Recipe* next : recipes.subspan(1)) {
    const auto& recipe = static_cast<const TorchRecipe&>(*next);
    if (chain.relu) return std::nullopt;
    if (is_relu(recipe, made)) chain.relu = true;
    else if (chain.add == nullptr && is_add(recipe, made)) chain.add = &recipe;
    else return std::nullopt;
  }
  return chain;
}

bool rides_along(std::span<Recipe* const> recipes, const TorchRecipe& next) {
  // Asked of every op in place: almost always in vain.
  if (recipes.empty() || recipes.size() >= kMost || static_cast<const TorchRecipe*>(recipes[0])->lean == nullptr) return false;
  std::vector<Recipe*> all(recipes.begin(), recipes.end());
  all.push_back(const_cast<TorchRecipe*>(&next));
  return find_fused_chain(all).has_value();
}

bool may_cast_norm(const TorchRecipe& recipe) {
  const Record* source = recipe.tensors.size() == 1 ? recipe.tensors[0].facts.record : nullptr;
  if (source == nullptr || source->recipes.size() != 1) return false;
  const auto& norm = static_cast<const TorchRecipe&>(*source->recipes[0]);
  return norm.lean != nullptr && norm.lean->fuses == Fuses::casts && norm.results[0].record == source;
}

bool casts_norm(const TorchRecipe& recipe) {
  const auto& norm = static_cast<const TorchRecipe&>(*recipe.tensors[0].facts.record->recipes[0]);
  const TensorFacts& made = recipe.results[0];
  const bool known = made.dtype == caffe2::TypeMeta::Make<c10::Half>() || made.dtype == caffe2::TypeMeta::Make<c10::BFloat16>() ||
                     made.dtype == caffe2::TypeMeta::Make<float>();
  const TensorFacts& read = recipe.tensors[0].facts;
  return known && made.device == read.device && made.offset == 0 && read.offset == 0 && lies_like(read, norm.results[0]) &&
         made.sizes == read.sizes && is_contiguous(read) && is_contiguous(made);
}

bool is_contiguous(const TensorFacts& facts) {
  std::int64_t stride = 1;
  for (std::size_t at = facts.sizes.size(); at-- > 0; stride *= facts.sizes[at]) {
    if (facts.sizes[at] == 0 || (facts.sizes[at] > 1 && facts.strides[at] != stride)) return false;
  }
  return true;
}

bool has_fused_kernels() { return run_fused_cuda != nullptr; }

at::Tensor run_fused(const FusedCall& call) { return has_fused_kernels() ? run_fused_cuda(call) : at::Tensor(); }

}  // namespace spillway
