// Where a tensor leaves the dispatcher's sight: its bytes come home first, and stay as long as its address is out there.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "torch/adapter.h"

namespace spillway {

enum class Exposure : int {
  read = 0,       // resident now
  write = 2,      // and may be written outside any op
  for_life = 3,   // and its address is kept by somebody: never leaves again
};

void materialize(Adapter& adapter, c10::TensorImpl& tensor, Exposure exposure);
void materialize(Adapter& adapter, c10::StorageImpl& storage, Exposure exposure);

// For the trace: what this tensor is for.
void tell_role(Adapter& adapter, c10::TensorImpl& tensor, StorageKind kind);

}  // namespace spillway
