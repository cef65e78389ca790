// Finds every storage inside operator arguments and results: tensors, lists, tuples, dicts, storages, and the tensors
// inside sparse, nested and per-channel quantized ones. Reads fields only, dispatches nothing.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

namespace spillway {

using Storages = c10::SmallVector<c10::StorageImpl*, 16>;

void add_storages(const at::Tensor& tensor, Storages& into);
void add_storages(const c10::IValue& value, Storages& into);

// Its layout is strided and it is no container of other tensors: metadata tell all of it.
[[nodiscard]] bool is_plain(const at::TensorBase& tensor);

}  // namespace spillway
