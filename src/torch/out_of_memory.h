// torch's own OutOfMemoryError, told to the one who can act: the op, its working set, what cannot leave, what would help.
#pragma once

#include <c10/util/Exception.h>

#include "torch/adapter.h"

namespace spillway {

// Workspace of a convolution that could not be had. Not an OutOfMemoryError: torch would catch that one inside, take another
// plan and round differently, without a word. It becomes one where it leaves the operator.
class WorkspaceShortage : public c10::Error {
 public:
  using c10::Error::Error;
};

// There are enough free bytes, but not in one piece.
class InPieces : public c10::OutOfMemoryError {
 public:
  using c10::OutOfMemoryError::OutOfMemoryError;
};

[[noreturn]] void throw_out_of_memory(Adapter& adapter, Bytes asked);
[[noreturn]] void throw_workspace_shortage(Adapter& adapter, Bytes asked);
[[noreturn]] void throw_as_out_of_memory(const WorkspaceShortage& why);
[[noreturn]] void throw_out_of_memory(Adapter& adapter, const Shortage& why);

}  // namespace spillway
