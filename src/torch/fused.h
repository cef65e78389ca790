// Fused rebuilds: what several ops made comes back in one pass over memory, with torch's roundings in between: same bits, on a
// card. A storage that batch norm made and an addition and ReLU then changed in place; a cast of what layer norm made, when
// that is dead.
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
  const TorchRecipe* norm = nullptr;
  const TorchRecipe* add = nullptr;   // null: none
  const TorchRecipe* cast = nullptr;  // null: none
  bool relu = false;

  // Where x, weight and bias stand among the norm's arguments.
  [[nodiscard]] std::array<std::int32_t, 3> places() const;
  // What the cast reads.
  [[nodiscard]] Record& source() const { return *cast->tensors[0].facts.record; }

  // What is added.
  [[nodiscard]] const TensorFacts& added() const { return add->tensors[1].facts; }
};

// Empty: not such a chain, or nothing to fuse.
[[nodiscard]] std::optional<FusedChain> find_fused_chain(std::span<Recipe* const> recipes);
// Whether this op, which changes the storage in place, costs no pass of its own after these.
[[nodiscard]] bool rides_along(std::span<Recipe* const> recipes, const TorchRecipe& next);

// Whether this op casts what a norm made; then, its result's facts being in `results`, whether it can be made again so.
[[nodiscard]] bool may_cast_norm(const TorchRecipe& recipe);
[[nodiscard]] bool casts_norm(const TorchRecipe& recipe);
[[nodiscard]] bool is_contiguous(const TensorFacts& facts);

[[nodiscard]] bool has_fused_kernels();
struct FusedCall {
  const FusedChain& chain;
  at::Tensor x, weight, bias, mean, invstd, z;  // weight, bias, z: may be undefined
};
// Undefined where there is no kernel for it.
[[nodiscard]] at::Tensor run_fused(const FusedCall& call);

}  // namespace spillway
