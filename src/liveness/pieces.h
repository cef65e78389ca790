// Optimizer operators over long lists, which may run in pieces: the torch adapter splits them when they do not fit.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/units.h"
#include "trace/trace.h"

namespace spillway {

// How many lists of tensors the operator walks side by side; 0 for one that does not split. Names with or without
// namespace, torch's `aten::_fused_adamw_` and a recorder's `_fused_adamw_.default` alike.
[[nodiscard]] inline std::uint8_t lists_of(std::string_view name) {
  const auto holds = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (holds("_fused_adam")) return 4;  // parameters, gradients, two moments; amsgrad's fifth is rare
  if (holds("_fused_sgd") || holds("_fused_adagrad")) return 3;
  if (holds("_foreach_addc")) return 3;  // addcmul, addcdiv: self and two more
  return holds("_foreach_") ? 2 : 0;
}

// The trace with every such op whose storages are more than `most` run in pieces of at most that, each an op of its own
// with its share of the time and the transient. Ops are numbered anew. What cannot be told apart into lists stays whole.
[[nodiscard]] Trace cut_lists(const Trace& trace, Bytes most);

}  // namespace spillway
