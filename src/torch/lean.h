// Lean rebuilds, all rules in two tables: an operator whose first result can be made again, bit for bit, from its arguments
// and its other results by something cheaper than itself (see Note [Lean rebuilds] in engine/recipe.h), and one that has a twin: a
// kernel that makes all it made from its arguments alone.
//
// A rule counts only where it is proven: on the CPU by tests/torch/test_lean.py, on a card by tests/gpu/lean_test.py, over
// dtypes, layouts, odd shapes, NaN and infinity. No rule draws random numbers or writes anything but its result.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <span>
#include <string_view>

#include "torch/torch_recipe.h"

namespace spillway {

// One lean rebuild: the operator's arguments as it had them (what it wrote unseen is None), the sides in the rule's order.
struct LeanCall {
  const TorchRecipe& recipe;
  const torch::jit::Stack& arguments;
  std::span<const at::Tensor> sides;
};

// What is made again in one pass with an op's first result: nothing; ops that change it in place; a cast of it; a sum of it and
// another tensor. See fused.h.
enum class Fuses : std::uint8_t { nothing, changes, casts, sums };

// Another kernel that makes the same results from the same arguments in less time: what runs again may take it, and need not make
// what nobody wants.
struct TwinCall {
  const TorchRecipe& recipe;
  const torch::jit::Stack& arguments;
  std::span<const bool> wanted;  // by result
};
using TwinResults = c10::SmallVector<at::Tensor, 2>;  // undefined where not wanted

struct TwinRule {
  std::string_view op;
  c10::DeviceType where;
  bool proven;
  std::uint16_t results;
  bool (*applies)(const TorchRecipe& recipe);
  TwinResults (*run)(const TwinCall& call);
};

struct LeanRule {
  std::string_view op;
  c10::DeviceType where;
  bool proven;
  std::uint16_t sides;  // so many results after the first are read
  std::int64_t percent; // of the operator's own time, where that is all there is to go by
  bool (*applies)(const TorchRecipe& recipe);
  at::Tensor (*run)(const LeanCall& call);
  Fuses fuses = Fuses::nothing;
};

enum class LeanMode : int { none, proven, all };  // all: for the tests that prove

void set_lean_mode(LeanMode mode);

// Whether any rule is for this operator.
[[nodiscard]] bool has_lean_rule(std::string_view op);
// The rule for this call; null when there is none. `recipe.results`: the facts of its first result and its sides.
[[nodiscard]] const LeanRule* find_lean_rule(const TorchRecipe& recipe, c10::DeviceType where);
// The same for a twin; `recipe.results`: the facts of all results.
[[nodiscard]] const TwinRule* find_twin_rule(const TorchRecipe& recipe, c10::DeviceType where);

// What a dropout on a card multiplies by what it keeps, but for doubles.
[[nodiscard]] double dropout_scale(const TorchRecipe& dropout);

// How the channels of a batch lie in memory.
enum class Order { planes, channels_last, other };
[[nodiscard]] Order order_of(const TensorFacts& facts);

// The first result; undefined when it would not lie in memory as it did.
[[nodiscard]] at::Tensor run_lean(const LeanCall& call);

}  // namespace spillway
