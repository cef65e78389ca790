// Where tensors leave the dispatcher's sight: their bytes come home first, and stay as long as their address is out there.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <span>
#include <vector>

#include "torch/adapter.h"

namespace spillway {

enum class Exposure : int {
  read = 0,       // resident now
  write = 2,      // and may be written outside any op
  for_life = 3,   // and its address is kept by somebody: never leaves again
};

struct Exposed {
  c10::StorageImpl* storage = nullptr;
  Exposure exposure = Exposure::read;
};

void add_exposed(c10::TensorImpl& tensor, Exposure exposure, std::vector<Exposed>& into);
// All of them at once, as an op has its arguments: one by one, the last would find no room to be rebuilt beside the others.
void materialize(Adapter& adapter, std::span<const Exposed> exposed);

// Whether a storage may leave although its Python object is held. Only once an op has seen it: what is only a storage is
// read through that object.
void loosen(Adapter& adapter, c10::StorageImpl& storage, bool loose);

// The bytes of a tensor come home and its address is somebody else's until end_loan. Null: there is nothing to end, because
// the memory is not ours, or because the device works on after its caller has let go: then it is held for life.
[[nodiscard]] Record* lend(Adapter& adapter, c10::TensorImpl& tensor);
void end_loan(Adapter& adapter, Record* loan);

// The loan ends with what was exported: when its consumer calls the deleter, on whatever thread. What was exported may be
// a copy; that one is held for life. `Exported`: DLManagedTensor or DLManagedTensorVersioned.
template <class Exported>
void end_loan_with(Adapter& adapter, Record* loan, Exported& exported);

// For the trace: what this tensor is for.
void tell_role(Adapter& adapter, c10::TensorImpl& tensor, StorageKind kind);

}  // namespace spillway
