// The forward pass in about sqrt(n) parts of equally many ops: what stands for the blocks of a model where nobody names them.
#pragma once

#include <cstdint>
#include <vector>

#include "liveness/liveness.h"

namespace spillway {

// By op: its segment.
[[nodiscard]] std::vector<std::uint32_t> cut_forward(const Liveness& step);

// The same in about so many parts that make equally many bytes, each cut where few bytes cross it.
[[nodiscard]] std::vector<std::uint32_t> cut_forward_where_little_crosses(const Liveness& step, std::uint32_t segments);

// Whether a later segment's forward reads it.
[[nodiscard]] bool crosses(const Liveness& step, StoragePlace storage, const std::vector<std::uint32_t>& segment);

}  // namespace spillway
