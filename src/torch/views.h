// Kernels for torch's views that take their arguments as they come.
//
// A boxed call makes a list of its arguments, and one more for a shape, and takes them apart again below: twice what a view
// itself costs, and a third of a step's operators are views. Here only what somebody wants to follow more closely goes that way.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace spillway {

// For our key; none: it is not one of these views.
[[nodiscard]] std::optional<c10::KernelFunction> find_view_kernel(const c10::OperatorHandle& op);

}  // namespace spillway
