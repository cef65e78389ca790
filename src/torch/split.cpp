#include "torch/split.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <unordered_set>

namespace spillway {

namespace {

using torch::jit::Stack;

std::size_t list_length(const c10::IValue& value) { return value.isList() ? value.toListRef().size() : 0; }

template <class Visit>
void for_each_at(c10::ArrayRef<c10::IValue> arguments, std::size_t length, std::size_t element, Visit visit) {
  for (const c10::IValue& value : arguments) {
    if (!value.isTensorList() || list_length(value) != length) continue;
    const at::Tensor& tensor = value.toListRef()[element].toTensor();
    if (tensor.defined() && tensor.has_storage()) visit(tensor);
  }
}

c10::StorageImpl* storage_of(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); }

// The storages of a few elements, each once.
class Piece {
 public:
  Piece(c10::ArrayRef<c10::IValue> arguments, std::size_t length) : arguments_(arguments), length_(length) {}

  // How much larger it is with the element. With `add` the element is in it from now on.
  Bytes grow(std::size_t element, bool add) {
    c10::SmallVector<const c10::StorageImpl*, 8> fresh;
    Bytes more;
    for_each_at(arguments_, length_, element, [&](const at::Tensor& tensor) {
      const c10::StorageImpl* storage = storage_of(tensor);
      if (!storages_.insert(storage).second) return;
      fresh.push_back(storage);
      more += Bytes{static_cast<std::int64_t>(storage->nbytes())};
    });
    if (add) return more;
    for (const c10::StorageImpl* storage : fresh) storages_.erase(storage);
    return more;
  }

 private:
  c10::ArrayRef<c10::IValue> arguments_;
  std::size_t length_;
  std::unordered_set<const c10::StorageImpl*> storages_;
};

// An eighth of the budget: inputs and results of two pieces and what cannot leave find room beside it. Where much cannot
// leave, less. By halves, so that what stays or goes here and there does not change the pieces from step to step.
Bytes piece_size(const Engine& engine, Bytes budget) {
  Bytes piece = budget / 8;
  const Bytes room = engine.most_available();
  while (piece > room / 4 && piece > 1_B) piece = piece / 2;
  return piece;
}

c10::IValue cut(const c10::IValue& value, std::size_t begin, std::size_t end) {
  auto piece = c10::impl::GenericList(value.toList().elementType());
  piece.reserve(end - begin);
  for (std::size_t i = begin; i < end; ++i) piece.push_back(value.toListRef()[i]);
  return c10::IValue(std::move(piece));
}

void gather(Stack& results, std::vector<c10::List<at::Tensor>>& whole) {
  std::size_t at = 0;
  for (const c10::IValue& value : results) {
    if (!value.isTensorList()) continue;
    if (whole.size() <= at) whole.emplace_back();
    for (const at::Tensor& tensor : value.toTensorList()) whole[at].push_back(tensor);
    ++at;
  }
}

}  // namespace

ListBytes list_bytes(c10::ArrayRef<c10::IValue> arguments, const std::function<Bytes(c10::StorageImpl*)>& size) {
  ListBytes bytes;
  if (arguments.empty() || !arguments[0].isTensorList()) return bytes;
  const std::size_t length = list_length(arguments[0]);
  std::size_t most = 0, all = 0;  // of the parts that are elements: what is made is as large
  for (std::size_t i = 0; i < length; ++i) {
    c10::SmallVector<c10::StorageImpl*, 8> storages;
    Bytes element;
    std::size_t part = 0;
    for_each_at(arguments, length, i, [&](const at::Tensor& tensor) {
      part += tensor.nbytes();
      c10::StorageImpl* storage = storage_of(tensor);
      if (std::find(storages.begin(), storages.end(), storage) != storages.end()) return;
      storages.push_back(storage);
      element += size(storage);
    });
    bytes.largest = std::max(bytes.largest, element);
    most = std::max(most, part);
    all += part;
  }
  bytes.share = all == 0 ? 0 : static_cast<double>(most) / static_cast<double>(all);
  return bytes;
}

bool run_in_pieces(Adapter& adapter, const c10::OperatorHandle& op, Stack& stack, const std::function<void(Stack&)>& run) {
  const auto budget = adapter.engine().options().budget;
  if (!budget) return false;
  const std::size_t count = op.schema().arguments().size();
  const auto arguments = c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count);
  const std::size_t length = list_length(arguments[0]);
  if (length < 2 || !arguments[0].isTensorList()) return false;
  const Bytes most = piece_size(adapter.engine(), *budget);
  Piece all(arguments, length);
  Bytes bytes;
  for (std::size_t i = 0; i < length && bytes <= most; ++i) bytes += all.grow(i, /*add=*/true);
  if (bytes <= most) return false;

  std::vector<c10::List<at::Tensor>> results;
  for (std::size_t begin = 0, end = 0; begin < length; begin = end) {
    Piece piece(arguments, length);
    bytes = {};
    do bytes += piece.grow(end++, /*add=*/true);
    while (end < length && bytes + piece.grow(end, /*add=*/false) <= most);
    Stack part;
    for (const c10::IValue& value : arguments) part.push_back(list_length(value) == length ? cut(value, begin, end) : value);
    run(part);
    gather(part, results);
  }
  stack.erase(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
  for (auto& list : results) stack.emplace_back(std::move(list));
  return true;
}

}  // namespace spillway
