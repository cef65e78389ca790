// One operator call kept as facts: handle, masked keys, plain arguments, tensors as metadata, generator state.
//
// A tensor argument is its record and shape; a tiny CPU tensor (a wrapped number) is its value. Nothing in here
// keeps a tensor or a storage alive.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <array>
#include <memory>
#include <optional>

#include "engine/recipe.h"
#include "torch/adapter.h"
#include "torch/op_traits.h"

namespace spillway {

struct TensorFacts {
  Record* record = nullptr;  // null: a value, or a storage without bytes
  c10::SmallVector<std::int64_t, 5> sizes, strides;
  std::int64_t offset = 0;
  caffe2::TypeMeta dtype;
  c10::DispatchKeySet keys;
  c10::Device device = c10::Device(c10::kCPU);
  bool wrapped_number = false;
  Bytes value_size;          // positive: the storage's bytes are in `value`
  alignas(16) std::array<std::byte, 16> value{};  // a kernel reads it in place, a complex double on its own boundary
};

// Where in the arguments a tensor goes: position, and index when that argument is a list (-1: the argument itself).
struct TensorSlot {
  std::int32_t position = 0;
  std::int32_t element = -1;
  TensorFacts facts;
};

// The state of the generator an operator draws from, to be set around a replay.
class GeneratorState {
 public:
  virtual ~GeneratorState() = default;
  // Swaps the state in; returns what was there.
  [[nodiscard]] virtual std::unique_ptr<GeneratorState> exchange() const = 0;
};
[[nodiscard]] std::unique_ptr<GeneratorState> save_generator(const c10::OperatorHandle& op, const torch::jit::Stack& stack, c10::Device where);

struct LeanRule;
struct TwinRule;

class TorchRecipe final : public Recipe {
 public:
  TorchRecipe(const c10::OperatorHandle& op, c10::DispatchKeySet keys) : op(op), keys(keys) {}

  c10::OperatorHandle op;
  c10::DispatchKeySet keys;
  std::vector<c10::IValue> arguments;  // tensors left out
  std::vector<TensorSlot> tensors;
  std::unique_ptr<GeneratorState> generator;
  bool grad_mode = false;
  int threads = 1;                     // that kernels shared their work among; see Note [As many threads]
  bool in_place = false;
  Arithmetic arithmetic = Arithmetic::little;
  const LeanRule* lean = nullptr;      // how its first result is made again from its sides; see lean.h
  const TwinRule* twin = nullptr;      // how all of them are made again by another kernel
  std::vector<TensorFacts> results;    // where there is such a rule: of the first result and the sides, or of all
};

// Recipes are made and forgotten at almost every op: those done with keep the room of their lists and come again.
void put_back(TorchRecipe* recipe);
struct PutBack {
  void operator()(TorchRecipe* recipe) const { put_back(recipe); }
};
using TorchRecipePtr = std::unique_ptr<TorchRecipe, PutBack>;

// With the lock, before the op runs: its facts, or empty when the call cannot be told by facts alone.
[[nodiscard]] TorchRecipePtr try_record(Adapter& adapter, const c10::OperatorHandle& op, const OpTraits& traits,
                                        c10::DispatchKeySet keys, const torch::jit::Stack& stack);

// With the lock: a result's facts; false when they do not tell all of it.
[[nodiscard]] bool tell_result(Adapter& adapter, const at::Tensor& result, TensorFacts& facts);

}  // namespace spillway
