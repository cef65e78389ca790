#include "torch/split.h"

#include <ATen/core/ivalue.h>

namespace spillway {

namespace {

using torch::jit::Stack;

std::size_t list_length(const c10::IValue& value) { return value.isList() ? value.toListRef().size() : 0; }

Bytes bytes_at(c10::ArrayRef<c10::IValue> arguments, std::size_t length, std::size_t element) {
  Bytes sum;
  for (const c10::IValue& value : arguments) {
    if (!value.isTensorList() || list_length(value) != length) continue;
    const at::Tensor& tensor = value.toListRef()[element].toTensor();
    if (tensor.defined() && tensor.has_storage()) sum += Bytes{static_cast<std::int64_t>(tensor.nbytes())};
  }
  return sum;
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

ListBytes list_bytes(c10::ArrayRef<c10::IValue> arguments) {
  ListBytes bytes;
  if (arguments.empty() || !arguments[0].isTensorList()) return bytes;
  const std::size_t length = list_length(arguments[0]);
  for (std::size_t i = 0; i < length; ++i) {
    const Bytes element = bytes_at(arguments, length, i);
    bytes.largest = std::max(bytes.largest, element);
    bytes.all += element;
  }
  return bytes;
}

bool run_in_pieces(Adapter& adapter, const c10::OperatorHandle& op, Stack& stack, const std::function<void(Stack&)>& run) {
  const auto budget = adapter.engine().options().budget;
  if (!budget) return false;
  const std::size_t count = op.schema().arguments().size();
  const auto arguments = c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count);
  const std::size_t length = list_length(arguments[0]);
  if (length < 2 || !arguments[0].isTensorList()) return false;
  // An eighth of the budget a piece: inputs and results of two pieces and what cannot leave find room beside it.
  const Bytes piece = *budget / 8;
  if (list_bytes(arguments).all <= piece) return false;

  std::vector<c10::List<at::Tensor>> results;
  for (std::size_t begin = 0, end = 0; begin < length; begin = end) {
    Bytes bytes;
    do bytes += bytes_at(arguments, length, end++);
    while (end < length && bytes + bytes_at(arguments, length, end) <= piece);
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
