#include "forecast/shape.h"

#include <algorithm>

#include "base/error.h"

namespace spillway {

namespace {

class Hash {
 public:
  void add(std::uint64_t value) { state_ = (state_ ^ value) * 0x9E3779B97F4A7C15ull, state_ ^= state_ >> 29; }
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x243F6A8885A308D3ull;
};

}  // namespace

StepShape shape_of(const Liveness& step, std::span<const std::uint64_t> keys) {
  SPILLWAY_ENSURE(keys.size() == step.op_count(), "every op has its key");
  StepShape shape;
  Hash hash;
  std::vector<std::uint32_t> number(step.storage_count(), kNoPlace);
  for (OpPlace op = 0; op < step.op_count(); ++op) {
    hash.add(keys[op]);
    for (const Access& access : step.accesses_at(op)) {
      std::uint32_t& known = number[access.storage];
      if (known == kNoPlace) {
        known = static_cast<std::uint32_t>(shape.storages.size());
        shape.storages.push_back(access.storage);
      }
      hash.add((std::uint64_t{known} << 3) | (access.reads ? 4u : 0u) | (access.writes ? 2u : 0u) | (access.makes ? 1u : 0u));
    }
  }
  shape.key = hash.value();
  for (StoragePlace at = 0; at < step.storage_count(); ++at) {
    const LiveStorage& storage = step.storages()[at];
    if (number[at] == kNoPlace && !storage.before && storage.birth == storage.death) shape.takings.push_back(at);
  }
  std::ranges::stable_sort(shape.takings, {}, [&](StoragePlace at) { return step.storages()[at].birth; });
  for (const StoragePlace at : shape.takings) shape.taking_ops.push_back(step.storages()[at].birth);
  return shape;
}

std::vector<std::uint64_t> name_keys(const Trace& trace, const Liveness& step) {
  std::vector<std::uint64_t> keys;
  for (const LiveOp& op : step.ops()) {
    Hash hash;
    for (const char letter : trace.name(op.name)) hash.add(static_cast<unsigned char>(letter));
    keys.push_back(hash.value());
  }
  return keys;
}

}  // namespace spillway
