// Finds every storage inside operator arguments and results: tensors, lists, tuples, dicts, storages, and the tensors
// inside sparse, nested and per-channel quantized ones. Reads fields only, dispatches nothing.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

namespace spillway {

using Storages = c10::SmallVector<c10::StorageImpl*, 16>;

inline constexpr c10::DispatchKeySet kContainers =
    c10::DispatchKeySet({c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr, c10::DispatchKey::NestedTensor,
                         c10::DispatchKey::Quantized, c10::DispatchKey::MkldnnCPU});

// Of the tensors a container is made of, and of a value that is not one tensor: what few operators have.
void add_parts(const at::Tensor& container, Storages& into);
void add_elements(const c10::IValue& value, Storages& into);

inline void add_own(const at::TensorBase& tensor, Storages& into) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!impl->has_storage()) return;
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (storage != nullptr) into.push_back(storage);
}

inline void add_storages(const at::Tensor& tensor, Storages& into) {
  if (!tensor.defined()) return;
  if (tensor.key_set().has_any(kContainers)) [[unlikely]] add_parts(tensor, into);
  else add_own(tensor, into);
}

inline void add_storages(const c10::IValue& value, Storages& into) {
  if (value.isTensor()) [[likely]] add_storages(value.toTensor(), into);
  else if (!value.isNone()) add_elements(value, into);
}

// Its layout is strided and it is no container of other tensors: metadata tell all of it.
[[nodiscard]] inline bool is_plain(const at::TensorBase& tensor) {
  return !tensor.key_set().has_any(kContainers) && tensor.unsafeGetTensorImpl()->has_storage() &&
         !tensor.key_set().has(c10::DispatchKey::Python) && !tensor.key_set().has(c10::DispatchKey::ZeroTensor);
}

}  // namespace spillway
