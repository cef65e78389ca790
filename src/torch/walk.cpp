#include "torch/walk.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>

namespace spillway {

namespace {

void add_quantizer(const at::Tensor& tensor, Storages& into) {
  auto* impl = static_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl());
  const auto quantizer = impl->quantizer();
  if (const auto* channels = dynamic_cast<const at::PerChannelAffineQuantizer*>(quantizer.get())) {
    add_own(channels->scales(), into);
    add_own(channels->zero_points(), into);
  }
}

}  // namespace

void add_parts(const at::Tensor& tensor, Storages& into) {
  const c10::DispatchKeySet keys = tensor.key_set();
  if (keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Sparse))) {
    const auto* impl = static_cast<const at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
    add_own(impl->indices(), into);
    add_own(impl->values(), into);
  } else if (keys.has_any(c10::DispatchKeySet(c10::DispatchKey::SparseCsr))) {
    const auto* impl = static_cast<const at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
    add_own(impl->compressed_indices(), into);
    add_own(impl->plain_indices(), into);
    add_own(impl->values(), into);
  } else if (keys.has_any(c10::DispatchKeySet(c10::DispatchKey::NestedTensor))) {
    const auto* impl = dynamic_cast<const at::native::NestedTensorImpl*>(tensor.unsafeGetTensorImpl());
    if (impl == nullptr) return;  // jagged tensors are Python subclasses: their parts come as arguments of their own
    add_own(impl->get_nested_sizes(), into);
    add_own(impl->get_nested_strides(), into);
    add_own(impl->get_storage_offsets(), into);
    add_own(tensor, into);
  } else if (keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Quantized))) {
    add_own(tensor, into);
    add_quantizer(tensor, into);
  }
}

void add_elements(const c10::IValue& value, Storages& into) {
  if (value.isStorage()) {
    const auto storage = value.toStorage();
    if (storage) into.push_back(storage.unsafeGetStorageImpl());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) add_storages(tensor, into);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) add_storages(element, into);
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) add_storages(element, into);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      add_storages(entry.key(), into);
      add_storages(entry.value(), into);
    }
  }
}

}  // namespace spillway
