// torch's own OutOfMemoryError, told to the one who can act: the op, its working set, what cannot leave, what would help.
#pragma once

#include "torch/adapter.h"

namespace spillway {

[[noreturn]] void throw_out_of_memory(Adapter& adapter, Bytes asked);
[[noreturn]] void throw_out_of_memory(Adapter& adapter, const Shortage& why);

}  // namespace spillway
