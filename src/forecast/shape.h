// What a step does whatever its size: its ops, and which storage plays which part in them.
//
// Steps of equal shape differ in sizes and times only. Storages are numbered by the place of their first access; those no op
// names are left out, except what an op takes and gives back while it runs, which counts as the op's own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "liveness/liveness.h"

namespace spillway {

struct StepShape {
  std::uint64_t key = 0;               // equal for equal shapes
  std::vector<StoragePlace> storages;  // those that ops name, by first access
  std::vector<StoragePlace> takings;   // those that were there during one op only, named by none, by op
  std::vector<OpPlace> taking_ops;     // the ops of these: they may differ between steps of a shape
};

// `keys`: by op, what it is.
[[nodiscard]] StepShape shape_of(const Liveness& step, std::span<const std::uint64_t> keys);

// The ops of a step of the trace by their names.
[[nodiscard]] std::vector<std::uint64_t> name_keys(const Trace& trace, const Liveness& step);

}  // namespace spillway
