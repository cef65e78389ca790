// Fused rebuilds: what several ops made comes back in one pass over memory, with torch's roundings in between: same bits, on a
// card. A storage that batch norm made and an addition and ReLU then changed in place; and what reads straight what is dead: a
// cast of what layer norm made, a sum of what dropout made and another tensor.
//
// Only where tests/gpu/lean_test.py has shown them equal; anything that differs from the pattern is run op by op.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <span>

#include "torch/torch_recipe.h"

namespace spillway {

// The ops of one storage, from its making on, or of its dead source and itself.
struct FusedChain {
  const TorchRecipe* maker = nullptr;   // a norm or a dropout
  const TorchRecipe* reader = nullptr;  // of what it made, which is dead: a cast or a sum; null: none
  Record* source = nullptr;             // what the reader reads
  const TensorFacts* added = nullptr;   // null: nothing is
  bool relu = false;

  // Where x, weight and bias stand among the maker's arguments.
  [[nodiscard]] std::array<std::int32_t, 3> places() const;
};

// Empty: not such a chain, or nothing to fuse. A norm alone is one: our pass over it is quicker than torch's.
[[nodiscard]] std::optional<FusedChain> find_fused_chain(std::span<Recipe* const> recipes);
// Whether this op, which changes the storage in place, costs no pass of its own after these.
[[nodiscard]] bool rides_along(std::span<Recipe* const> recipes, const TorchRecipe& next);

// What this op reads that may be dead when it is made again in one pass; null: nothing. Then, its result's facts being in
// `results`, whether it can be made again so.
[[nodiscard]] const TensorFacts* find_source(const TorchRecipe& recipe);
[[nodiscard]] bool may_read_straight(const TorchRecipe& recipe, const TensorFacts& source);
[[nodiscard]] bool is_contiguous(const TensorFacts& facts);
[[nodiscard]] bool is_small(const TensorFacts& facts);  // 32 bits index it

[[nodiscard]] bool has_fused_kernels();
[[nodiscard]] bool is_known(caffe2::TypeMeta dtype);  // to them
struct FusedCall {
  const FusedChain& chain;
  at::Tensor x = {}, weight = {}, bias = {};  // weight, bias, z: may be undefined
  std::array<at::Tensor, 2> sides = {};       // of the maker: mean and inverse deviation, or the mask
  at::Tensor z = {};
};
// Undefined where there is no kernel for it.
[[nodiscard]] at::Tensor run_fused(const FusedCall& call);

}  // namespace spillway
