// The boxed handler: what happens around every operator below autograd.
//
// Before: arguments are found, pinned and brought home. Then the real kernel, with our key excluded so that its inner
// calls are part of this op. After: new storages are known, the call is remembered as a recipe where that is legal, pins
// are dropped in every way out.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "torch/op_traits.h"

namespace spillway {

// The entry of one operator on our key.
class OpEntry final : public c10::OperatorKernel {
 public:
  explicit OpEntry(OpTraits traits) : traits_(std::move(traits)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  OpTraits traits_;
};

// Stands in front of a kernel that our key does not reach (a composite that reads memory itself, a kernel on a key above
// ours): the whole call is one unit.
class UnitEntry final : public c10::OperatorKernel {
 public:
  UnitEntry(OpTraits traits, c10::SafeKernelFunction kernel) : traits_(std::move(traits)), kernel_(std::move(kernel)) {
    traits_.replay = Replay::never;
    traits_.why_not = "its kernel is out of our sight: the whole call is one unit";
  }
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  OpTraits traits_;
  c10::SafeKernelFunction kernel_;
};

// Stands in front of a composite kernel that keeps a pointer into one argument across the ops it calls: that argument stays
// home during the call, the ops are seen one by one.
class PinEntry final : public c10::OperatorKernel {
 public:
  PinEntry(std::size_t from_top, c10::SafeKernelFunction kernel) : from_top_(from_top), kernel_(std::move(kernel)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  std::size_t from_top_;  // where the argument is on the stack; 1: last
  c10::SafeKernelFunction kernel_;
};

// Before a view runs. True: whoever follows the run has been told, and it may run without an entry; false: it needs one.
[[nodiscard]] bool pass_view(const OpTraits& traits, const at::Tensor& base);

// For operators without an entry of their own.
void handle_any(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace spillway
