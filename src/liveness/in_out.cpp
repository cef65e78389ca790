#include "liveness/in_out.h"

namespace spillway {

InOutSets::InOutSets(const Liveness& liveness) : liveness_(liveness), freed_begin_(liveness.op_count() + 1) {
  for (StoragePlace at = 0; at < liveness.storage_count(); ++at) {
    const LiveStorage& storage = liveness.storages()[at];
    const auto accesses = liveness.accesses_of(at);
    const bool made = !accesses.empty() && accesses.front().makes;
    from_.push_back(storage.birth + made);
    const OpPlace last = accesses.empty() ? storage.birth : accesses.back().op + 1;
    until_.push_back(storage.after ? liveness.op_count() : last);
    if (!storage.after && !accesses.empty()) ++freed_begin_[last];
  }
  for (std::size_t i = 1; i < freed_begin_.size(); ++i) freed_begin_[i] += freed_begin_[i - 1];
  freed_.resize(freed_begin_.back());
  std::vector<std::uint32_t> next(freed_begin_);
  for (StoragePlace at = 0; at < liveness.storage_count(); ++at)
    if (!liveness.storages()[at].after && !liveness.accesses_of(at).empty()) freed_[next[until_[at] - 1]++] = at;
}

std::vector<StoragePlace> InOutSets::in(OpPlace op) const {
  std::vector<StoragePlace> set;
  for (StoragePlace at = 0; at < until_.size(); ++at)
    if (from_[at] <= op && op < until_[at]) set.push_back(at);
  return set;
}

std::vector<StoragePlace> InOutSets::out(OpPlace op) const {
  std::vector<StoragePlace> set;
  for (StoragePlace at = 0; at < until_.size(); ++at) {
    const bool goes_on = op + 1 < until_[at] || liveness_.storages()[at].after;
    if (from_[at] <= op + 1 && liveness_.storages()[at].birth <= op && goes_on) set.push_back(at);
  }
  return set;
}

std::span<const StoragePlace> InOutSets::freed_after(OpPlace op) const {
  return std::span(freed_).subspan(freed_begin_[op], freed_begin_[op + 1] - freed_begin_[op]);
}

}  // namespace spillway
