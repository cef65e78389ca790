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

namespace {

bool is_forward(const Liveness& step, OpPlace op) { return step.ops()[op].phase == Phase::forward; }

// By op: bytes that forward ops before it made and it or a later one of them reads.
std::vector<std::int64_t> bytes_across(const Liveness& step) {
  std::vector<std::int64_t> across(step.op_count() + 2);
  for (StoragePlace storage = 0; storage < step.storage_count(); ++storage) {
    const auto accesses = step.accesses_of(storage);
    if (accesses.empty() || !accesses.front().makes || !is_forward(step, accesses.front().op)) continue;
    OpPlace last = accesses.front().op;
    for (const Access& access : accesses) last = is_forward(step, access.op) ? access.op : last;
    across[accesses.front().op + 1] += step.storages()[storage].size.count;
    across[last + 1] -= step.storages()[storage].size.count;
  }
  for (std::size_t op = 1; op < across.size(); ++op) across[op] += across[op - 1];
  return across;
}

}  // namespace

std::vector<std::uint32_t> cut_forward_where_little_crosses(const Liveness& step, std::uint32_t segments) {
  const OpPlace ops = step.op_count();
  const std::vector<std::int64_t> across = bytes_across(step);
  std::int64_t total = 0;
  for (OpPlace op = 0; op < ops; ++op) total += is_forward(step, op) ? step.ops()[op].made.count : 0;
  // A cut is looked for around every `total / segments` bytes, as far as the neighbours leave it.
  const std::int64_t part = std::max<std::int64_t>(total / segments, 1), reach = part * 2 / 5;
  std::vector<OpPlace> cuts(segments, kNoPlace);  // the first has none
  std::int64_t made = 0;
  for (OpPlace op = 0; op < ops; ++op) {
    const auto nearest = static_cast<std::size_t>((made + part / 2) / part);
    const bool near = nearest > 0 && nearest < segments && std::abs(made - static_cast<std::int64_t>(nearest) * part) <= reach;
    if (is_forward(step, op) && near && (cuts[nearest] == kNoPlace || across[op] < across[cuts[nearest]])) cuts[nearest] = op;
    made += is_forward(step, op) ? step.ops()[op].made.count : 0;
  }
  std::vector<std::uint32_t> segment(ops);
  std::uint32_t now = 0;
  for (OpPlace op = 0; op < ops; ++op) segment[op] = now += std::ranges::count(cuts, op) > 0 ? 1 : 0;
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
