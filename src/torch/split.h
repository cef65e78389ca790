// Optimizer operators on long lists, run in pieces so that parameters, gradients and moments stream through the budget.
//
// Their kernels work element by element, so pieces give the same bits. Lists as long as the first one are cut, everything
// else is shared by all pieces; results are put together again.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>

#include "torch/adapter.h"

namespace spillway {

// What the neediest element of the lists takes: the floor counts that one alone. A storage counts as a whole, whatever part of
// it an element is, and as often as `size` says; zero for one that is counted elsewhere.
struct ListBytes {
  Bytes largest;
  double share = 0;  // of what the lists make, what one element makes at most; 0: these are no lists
};
[[nodiscard]] ListBytes list_bytes(c10::ArrayRef<c10::IValue> arguments, const std::function<Bytes(c10::StorageImpl*)>& size);

// False when the call fits as it is: nothing was run then.
[[nodiscard]] bool run_in_pieces(Adapter& adapter, const c10::OperatorHandle& op, torch::jit::Stack& stack,
                                 const std::function<void(torch::jit::Stack&)>& run);

}  // namespace spillway
