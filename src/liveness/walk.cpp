#include "liveness/walk.h"

#include <algorithm>

#include "liveness/pieces.h"

namespace spillway {
namespace {

bool contains(const std::vector<StorageId>& list, StorageId id) { return std::ranges::find(list, id) != list.end(); }

}  // namespace

bool only_views(const Op& op) {
  if (op.outputs.empty() || !op.mutated.empty() || op.inputs.size() > op.outputs.size()) return false;
  return std::ranges::all_of(op.outputs, [&](StorageId id) { return contains(op.aliased, id); }) &&
         std::ranges::all_of(op.inputs, [&](StorageId id) { return contains(op.aliased, id); });
}

void StepWalk::follow(const StepBegin& begin) {
  if (begin.job != job_) return;
  number_newborn();
  ++step_;
  ops_seen_ = 0;
}

void StepWalk::follow(const StorageBirth& birth) {
  if (birth.job != job_) return;
  living_[birth.storage] = {.birth = birth, .step = step_, .spot = {ops_seen_, kNoPlace}};
  newborn_.push_back(birth.storage);
}

void StepWalk::follow(const StorageDeath& death) { living_.erase(death.storage); }

void StepWalk::follow(const StorageRole& role) {
  if (const auto found = living_.find(role.storage); found != living_.end()) found->second.birth.kind = role.kind;
}

void StepWalk::follow(const Op& op) {
  if (op.job != job_) return;
  number_newborn();
  ++ops_seen_;
}

void StepWalk::number_newborn() {
  std::uint32_t nth = 0;
  for (const StorageId id : newborn_)
    if (const auto found = living_.find(id); found != living_.end()) found->second.spot.nth = nth++;
  newborn_.clear();
}

void StepWalk::follow(const Restart&) {
  living_.clear();
  newborn_.clear();
  step_ += 2;
}

// In the order of their births: a map has none that lasts.
void StepWalk::begin() {
  std::vector<Living*> there;
  for (auto& [id, living] : living_) there.push_back(&living);
  std::ranges::sort(there, {}, [](const Living* living) { return living->birth.storage; });
  for (Living* living : there) admit(*living, /*before=*/true);
  recording_ = true;
}

void StepWalk::admit(Living& living, bool before) {
  living.place = static_cast<StoragePlace>(storages.size());
  places_[living.birth.storage] = living.place;
  storages.push_back({.size = living.birth.size,
                      .birth = before ? 0 : ops_seen_,
                      .id = living.birth.storage,
                      .born = order_++,
                      .kind = living.birth.kind,
                      .before = before,
                      .after = true});
  origins_.push_back(living);
  writes_.push_back(0);
  access_at_.push_back(kNoPlace);
}

void StepWalk::inside(const Event& event, const Trace& trace) {
  if (const Op* op = std::get_if<Op>(&event); op != nullptr && op->job == job_) add_op(*op, trace);
  if (const auto* death = std::get_if<StorageDeath>(&event)) {
    if (const auto found = living_.find(death->storage); found != living_.end()) {
      LiveStorage& storage = storages[found->second.place];
      storage.after = false;
      storage.died = order_++;
      storage.death = std::max(storage.death, ops_seen_);  // already larger where an op used it as it died
    }
  }
  if (const auto* role = std::get_if<StorageRole>(&event)) learn(*role);
  before(event);
  if (const auto* birth = std::get_if<StorageBirth>(&event)) {
    if (const auto found = living_.find(birth->storage); found != living_.end()) admit(found->second, /*before=*/false);
  }
}

void StepWalk::add_op(const Op& op, const Trace& trace) {
  LiveOp& added = ops.emplace_back(LiveOp{.duration = op.duration,
                                          .again = op.again,
                                          .transient = op.transient,
                                          .workspace = op.workspace,
                                          .index = op.index,
                                          .name = op.name,
                                          .phase = op.phase,
                                          .replayable = op.replayable,
                                          .view = only_views(op),
                                          .lists = lists_of(trace.name(op.name))});
  if (!added.view) {
    for (const StorageId id : op.inputs) add_access(id, /*reads=*/true, /*writes=*/false);
    for (const StorageId id : op.mutated) add_access(id, true, true);
    for (const StorageId id : op.outputs)
      if (!contains(op.aliased, id)) add_access(id, false, true);
  }
  for (std::size_t at = op_begin.back(); at < accesses.size(); ++at) {
    const Access& access = accesses[at];
    if (access.makes) added.made += storages[access.storage].size;
    if (access.writes) ++writes_[access.storage];
  }
  op_begin.push_back(static_cast<std::uint32_t>(accesses.size()));
}

// A storage of another job is none of the step's. One that died while the op ran was there for it.
void StepWalk::add_access(StorageId id, bool reads, bool writes) {
  const auto found = places_.find(id);
  if (found == places_.end()) return;
  const StoragePlace place = found->second;
  LiveStorage& storage = storages[place];
  storage.death = ops_seen_ + 1;
  if (access_at_[place] != kNoPlace && access_at_[place] >= op_begin.back()) {
    Access& known = accesses[access_at_[place]];
    known.reads |= reads;
    known.writes |= writes;
    return;
  }
  const bool makes = writes && !reads && !storage.before && storage.birth == ops_seen_;
  access_at_[place] = static_cast<std::uint32_t>(accesses.size());
  accesses.push_back(
      {.op = ops_seen_, .storage = place, .version = writes_[place], .reads = reads, .writes = writes, .makes = makes});
}

void StepWalk::end() {
  number_newborn();
  for (const auto& [id, living] : living_) origins_[living.place] = living;
  for (LiveStorage& storage : storages)
    if (storage.after) storage.death = ops_seen_;
  link_steps();
}

// What was born at the same spot of the step before and dies in this one shows how a storage born here will end.
void StepWalk::link_steps() {
  std::unordered_map<Spot, StoragePlace, SpotHash> endings;
  for (StoragePlace at = 0; at < storages.size(); ++at) {
    if (storages[at].wraps()) {
      storages[at].next = at;
      storages[at].continues = true;
    } else if (storages[at].before && origins_[at].step + 1 == step_) {
      endings.emplace(origins_[at].spot, at);
    }
  }
  for (StoragePlace at = 0; at < storages.size(); ++at) {
    if (storages[at].before || !storages[at].after) continue;
    const auto found = endings.find(origins_[at].spot);
    if (found == endings.end() || storages[found->second].size != storages[at].size) continue;
    storages[at].next = found->second;
    storages[found->second].continues = true;
  }
}

void StepWalk::learn(const StorageRole& role) {
  if (const auto found = places_.find(role.storage); found != places_.end()) storages[found->second].kind = role.kind;
}

}  // namespace spillway
