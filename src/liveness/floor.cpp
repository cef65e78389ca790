#include "liveness/floor.h"

#include <algorithm>
#include <functional>

namespace spillway {
namespace {

std::vector<Bytes> stuck_bytes(const Liveness& liveness, FloorOptions options) {
  std::vector<Bytes> stuck(liveness.op_count() + 1);
  for (const LiveStorage& storage : liveness.storages()) {
    if (can_leave(storage, options)) continue;
    stuck[storage.birth] += storage.size;
    stuck[storage.death] -= storage.size;
  }
  for (std::size_t at = 1; at < stuck.size(); ++at) stuck[at] += stuck[at - 1];
  return stuck;
}

// Of what the op touches: that which is there before it and could be elsewhere.
class Arguments {
 public:
  Arguments(const Liveness& liveness, OpPlace op, FloorOptions options) {
    for (const Access& access : liveness.accesses_at(op)) {
      const LiveStorage& storage = liveness.storages()[access.storage];
      if (!access.makes && can_leave(storage, options)) sizes_.push_back(storage.size);
      if (access.makes && !can_leave(storage, options)) stuck_made_ += storage.size;
    }
  }

  // One storage out of each list: no piece needs more than the largest ones.
  void keep_largest(std::uint8_t lists) {
    if (sizes_.size() <= lists) return;
    std::ranges::nth_element(sizes_, sizes_.begin() + lists, std::greater{});
    all_ = sum();
    sizes_.resize(lists);
  }

  [[nodiscard]] Bytes sum() const {
    Bytes sum;
    for (const Bytes size : sizes_) sum += size;
    return sum;
  }
  // A piece needs its share of the transient.
  [[nodiscard]] Bytes share_of(Bytes transient) const {
    if (all_ == Bytes{}) return transient;
    const double share = static_cast<double>(sum().count) / static_cast<double>(all_.count);
    return {static_cast<std::int64_t>(static_cast<double>(transient.count) * share)};
  }
  [[nodiscard]] Bytes stuck_made() const { return stuck_made_; }

 private:
  std::vector<Bytes> sizes_;
  Bytes all_, stuck_made_;  // before keep_largest(); made by the op, and counted among what cannot leave
};

Bytes working_set(const Liveness& liveness, OpPlace at, FloorOptions options) {
  const LiveOp& op = liveness.ops()[at];
  Arguments arguments(liveness, at, options);
  if (op.lists > 0) arguments.keep_largest(op.lists);
  const Bytes own = std::max(op.transient, op.made) - arguments.stuck_made();
  return arguments.sum() + arguments.share_of(own);
}

}  // namespace

bool can_leave(const LiveStorage& storage, FloorOptions options) {
  return storage.kind != StorageKind::workspace && storage.size >= options.smallest;
}

Floor find_floor(const Liveness& liveness, FloorOptions options) {
  const std::vector<Bytes> stuck = stuck_bytes(liveness, options);
  Floor floor;
  for (OpPlace at = 0; at < liveness.op_count(); ++at) {
    const Bytes needed = working_set(liveness, at, options);
    if (floor.op != kNoPlace && needed + stuck[at] <= floor.bytes) continue;
    floor = {.bytes = needed + stuck[at], .op = at, .working_set = needed, .stuck = stuck[at]};
  }
  return floor;
}

}  // namespace spillway
