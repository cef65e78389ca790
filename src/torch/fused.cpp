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
  return is_known(made.dtype) && made.sizes.size() == 4 && made.offset == 0 && is_small(made) &&
         order_of(made) != Order::other && lies_like(recipe.tensors[0].facts, made);
}

bool is_whole(const TorchRecipe& recipe, const TensorFacts& made) {
  return recipe.in_place && !recipe.tensors.empty() && recipe.tensors[0].position == 0 && recipe.tensors[0].facts.offset == 0 &&
         lies_like(recipe.tensors[0].facts, made);
}

// Of two tensors that are not the same, as they are.
bool is_sum(const TorchRecipe& recipe) {
  return recipe.tensors.size() == 2 && recipe.arguments[2].isScalar() && recipe.arguments[2].toScalar().equal(1) &&
         recipe.tensors[1].facts.record != nullptr && recipe.tensors[1].facts.record != recipe.tensors[0].facts.record;
}

bool is_add(const TorchRecipe& recipe, const TensorFacts& made) {
  return recipe.op.schema().name() == "aten::add_" && is_whole(recipe, made) && is_sum(recipe) && lies_like(recipe.tensors[1].facts, made);
}

// What the maker made is dead: its record and its only recipe are all that is left. It is the one that was looked at when the reader
// ran: another argument may look like one by now.
std::optional<FusedChain> find_straight(const TorchRecipe& reader) {
  if (!reader.straight) return std::nullopt;
  Record& source = *reader.ingredients.front().record;
  if (source.residence != Residence::gone || source.recipes.size() != 1) return std::nullopt;
  const std::size_t at = reader.tensors[0].facts.record == &source ? 0 : 1;
  return FusedChain{.maker = static_cast<const TorchRecipe*>(source.recipes[0]),
                    .reader = &reader,
                    .source = &source,
                    .added = reader.tensors.size() == 2 ? &reader.tensors[1 - at].facts : nullptr};
}

bool is_relu(const TorchRecipe& recipe, const TensorFacts& made) {
  return recipe.op.schema().name() == "aten::relu_" && is_whole(recipe, made);
}

}  // namespace

std::array<std::int32_t, 3> FusedChain::places() const {
  switch (maker->lean->fuses) {
    case Fuses::casts: return {0, 2, 3};
    case Fuses::sums: return {0, -1, -1};
    default: return {0, 1, 2};
  }
}

std::optional<FusedChain> find_fused_chain(std::span<Recipe* const> recipes) {
  if (recipes.empty() || recipes.size() > kMost || !has_fused_kernels()) return std::nullopt;
  FusedChain chain{.maker = static_cast<const TorchRecipe*>(recipes[0])};
  if (!is_norm(*chain.maker)) return recipes.size() == 1 ? find_straight(*chain.maker) : std::nullopt;
  const TensorFacts& made = chain.maker->results[0];
  for (const Recipe* next : recipes.subspan(1)) {
    const auto& recipe = static_cast<const TorchRecipe&>(*next);
    if (chain.relu) return std::nullopt;
    if (is_relu(recipe, made)) chain.relu = true;
    else if (chain.added == nullptr && is_add(recipe, made)) chain.added = &recipe.tensors[1].facts;
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

const TensorFacts* find_source(const TorchRecipe& recipe) {
  const Fuses wanted = recipe.op.schema().name() == "aten::_to_copy" ? Fuses::casts : Fuses::sums;
  if (wanted == Fuses::sums && !is_sum(recipe)) return nullptr;
  for (const TensorSlot& slot : recipe.tensors) {
    const Record* source = slot.facts.record;
    if (source == nullptr || source->recipes.size() != 1) continue;
    const auto& maker = static_cast<const TorchRecipe&>(*source->recipes[0]);
    if (maker.lean != nullptr && maker.lean->fuses == wanted && maker.results[0].record == source) return &slot.facts;
  }
  return nullptr;
}

bool may_read_straight(const TorchRecipe& recipe, const TensorFacts& source) {
  const auto& maker = static_cast<const TorchRecipe&>(*source.record->recipes[0]);
  const TensorFacts& made = recipe.results[0];
  const bool alike = made.device == source.device && made.sizes == source.sizes && is_contiguous(made);
  const bool straight = alike && is_known(made.dtype) && made.offset == 0 && source.offset == 0 && lies_like(source, maker.results[0]) && is_contiguous(source);
  if (!straight || recipe.tensors.size() == 1) return straight && has_fused_kernels();
  const bool promoted = source.dtype != made.dtype && made.dtype == caffe2::TypeMeta::Make<float>();
  return has_fused_kernels() && (source.dtype == made.dtype || promoted) && lies_like(recipe.tensors[&source == &recipe.tensors[0].facts ? 1 : 0].facts, made) &&
         lies_like(maker.tensors[0].facts, source) && is_contiguous(maker.results[1]);
}

bool is_contiguous(const TensorFacts& facts) {
  std::int64_t stride = 1;
  for (std::size_t at = facts.sizes.size(); at-- > 0; stride *= facts.sizes[at]) {
    if (facts.sizes[at] == 0 || (facts.sizes[at] > 1 && facts.strides[at] != stride)) return false;
  }
  return true;
}

bool is_small(const TensorFacts& facts) {
  std::int64_t count = 1;
  for (const std::int64_t size : facts.sizes) count *= size;
  return count < std::numeric_limits<std::int32_t>::max();
}

bool is_known(caffe2::TypeMeta dtype) {
  return dtype == caffe2::TypeMeta::Make<float>() || dtype == caffe2::TypeMeta::Make<c10::Half>() || dtype == caffe2::TypeMeta::Make<c10::BFloat16>();
}

bool has_fused_kernels() { return run_fused_cuda != nullptr; }

at::Tensor run_fused(const FusedCall& call) { return has_fused_kernels() ? run_fused_cuda(call) : at::Tensor(); }

}  // namespace spillway
