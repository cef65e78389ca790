#include "plan/segments.h"

#include <algorithm>
#include <cmath>

namespace spillway {

// Ops that make something count; the rest belong to the one before.
std::vector<std::uint32_t> cut_forward(const Liveness& step) {
  std::uint32_t makers = 0;
  const auto makes = [&](OpPlace op) { return step.ops()[op].phase == Phase::forward && step.ops()[op].made > 0_B; };
  for (OpPlace op = 0; op < step.op_count(); ++op) makers += makes(op) ? 1 : 0;
  const auto segments = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(std::lround(std::sqrt(static_cast<double>(makers)))));
  std::vector<std::uint32_t> segment(step.op_count());
  std::uint32_t seen = 0;
  for (OpPlace op = 0; op < step.op_count(); ++op) {
    segment[op] = std::min(seen * segments / std::max(makers, 1u), segments - 1);
    seen += makes(op) ? 1 : 0;
  }
  return segment;
}

bool crosses(const Liveness& step, StoragePlace storage, const std::vector<std::uint32_t>& segment) {
  const auto accesses = step.accesses_of(storage);
  const std::uint32_t made = segment[accesses.front().op];
  return std::ranges::any_of(accesses, [&](const Access& access) {
    return step.ops()[access.op].phase == Phase::forward && segment[access.op] != made;
  });
}

}  // namespace spillway
