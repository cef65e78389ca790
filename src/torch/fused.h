// Fused rebuilds: a storage that batch norm made and an addition and ReLU then changed in place comes back in one pass over
// memory instead of three, with torch's roundings in between: same bits, on a card.
//
// Only where tests/gpu/lean_test.py has shown them equal; anything that differs from the pattern is run op by op.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>

#include "torch/torch_recipe.h"

namespace spillway {

// The ops of one storage, from its making on.
struct FusedChain {
  const TorchRecipe* norm = nullptr;
  const TorchRecipe* add = nullptr;  // null: none
  bool relu = false;

  // What is added.
  [[nodiscard]] const TensorFacts& added() const { return add->tensors[1].facts; }
};

// Empty: not such a chain, or nothing to fuse.
[[nodiscard]] std::optional<FusedChain> find_fused_chain(std::span<Recipe* const> recipes);
// Whether this op, which changes the storage in place, costs no pass of its own after these.
[[nodiscard]] bool rides_along(std::span<Recipe* const> recipes, const TorchRecipe& next);

struct FusedCall {
  const FusedChain& chain;
  at::Tensor x, weight, bias, mean, invstd, z;  // weight, bias, z: may be undefined
};
// Undefined where there is no kernel for it.
[[nodiscard]] at::Tensor run_fused(const FusedCall& call);

}  // namespace spillway
