// The dispatch key the handler sits on: a backend key nothing in the wheel implements, below autograd, Python and
// BackendSelect, above the dense kernels. Switched on per thread.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace spillway {

inline constexpr c10::DispatchKey kKey = c10::DispatchKey::FPGA;
inline constexpr c10::DispatchKeySet kBelowKey{c10::DispatchKeySet::FULL_AFTER, kKey};

}  // namespace spillway
