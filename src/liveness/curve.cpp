#include "liveness/curve.h"

#include <algorithm>

namespace spillway {

LiveCurve live_curve(const Liveness& liveness) {
  std::vector<Bytes> change(liveness.op_count() + 1);
  for (const LiveStorage& storage : liveness.storages()) {
    change[storage.birth] += storage.size;
    change[storage.death] -= storage.size;
  }
  LiveCurve curve;
  Bytes live;
  for (OpPlace at = 0; at < liveness.op_count(); ++at) {
    const LiveOp& op = liveness.ops()[at];
    live += change[at];
    curve.live.push_back(live);
    // The transient counts from before the op, when what it makes was not there yet.
    curve.during.push_back(std::max(live, live - op.made + op.transient));
    if (live > curve.peak_live) curve.peak_live = live, curve.peak_live_op = at;
    if (curve.during[at] > curve.peak) curve.peak = curve.during[at], curve.peak_op = at;
  }
  return curve;
}

std::vector<StoragePlace> resident_at(const Liveness& liveness, OpPlace op) {
  std::vector<StoragePlace> there;
  for (StoragePlace at = 0; at < liveness.storage_count(); ++at)
    if (liveness.storages()[at].birth <= op && op < liveness.storages()[at].death) there.push_back(at);
  std::ranges::stable_sort(there, std::greater{}, [&](StoragePlace at) { return liveness.storages()[at].size; });
  return there;
}

}  // namespace spillway
