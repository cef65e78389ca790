// The forward pass in about sqrt(n) parts of equally many ops: what stands for the blocks of a model where nobody names them.
#pragma once

#include <cstdint>
#include <vector>

#include "liveness/liveness.h"

namespace spillway {

// By op: its segment.
[[nodiscard]] std::vector<std::uint32_t> cut_forward(const Liveness& step);

// Whether a later segment's forward reads it.
[[nodiscard]] bool crosses(const Liveness& step, StoragePlace storage, const std::vector<std::uint32_t>& segment);

}  // namespace spillway
