#include "report/step_writer.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace spillway {
namespace {

// A storage that is decided upon over and over is told by its first decisions.
constexpr std::size_t kMostDecisions = 12;
// Stands for a transient in a point until it is known how many storages come before it.
constexpr std::uint32_t kTransientBit = 1u << 31;

}  // namespace

// Host times only rise, whatever a trace says.
void StepWriter::advance(Nanos at) {
  end_transient(at);
  now_ = std::max(now_, since_begin(at));
}

// Whatever happens next happens after the latest op: its transient is gone by then.
void StepWriter::end_transient(Nanos latest) {
  if (!pending_) return;
  const Pending ended = *std::exchange(pending_, std::nullopt);
  now_ = std::max(now_, std::min(ended.end, since_begin(latest)));
  point(ended.transient | kTransientBit, kGone | kOnDevice);
}

void StepWriter::point(std::uint32_t who, std::uint8_t what) {
  record_.points.push_back({now_, who, what});
  if ((what & kOnDevice) == 0) return;
  const Bytes size = (who & kTransientBit) != 0 ? record_.transients[who & ~kTransientBit] : record_.storages[who].size;
  device_ += (what & kGone) != 0 ? -size : size;
  record_.peak = std::max(record_.peak, device_);
}

StepWriter::Place* StepWriter::find(StorageId id) {
  const auto found = places_.find(id);
  return found == places_.end() ? nullptr : &found->second;
}

std::uint32_t StepWriter::add_storage(const StorageBirth& birth, NameId made_by) {
  const auto who = static_cast<std::uint32_t>(record_.storages.size());
  record_.storages.push_back({.id = birth.storage, .size = birth.size, .kind = birth.kind, .made_by = made_by});
  const bool on_device = birth.tier == TraceTier::device;
  places_[birth.storage] = {who, on_device};
  point(who, static_cast<std::uint8_t>(kAlive | (on_device ? kOnDevice : 0)));
  return who;
}

void StepWriter::there(const KnownStorage& storage) { add_storage(storage.birth, storage.made_by); }

void StepWriter::plan(const PlanMade& plan, const std::vector<Decision>& decisions) {
  record_.plan = plan;
  record_.policy = plan.policy;
  for (const Decision& decision : decisions) take(decision);
}

void StepWriter::take(const StorageBirth& birth) {
  advance(birth.at);
  born_.push_back(add_storage(birth, {}));
}

void StepWriter::take(const StorageDeath& death) {
  const Place* place = find(death.storage);
  if (place == nullptr) return;
  advance(death.at);
  point(place->who, static_cast<std::uint8_t>(kGone | kAlive | (place->on_device ? kOnDevice : 0)));
  places_.erase(death.storage);
}

void StepWriter::take(const StorageRole& role) {
  if (const Place* place = find(role.storage)) record_.storages[place->who].kind = role.kind;
}

// The transient counts from before the op: above the storages it made, which are there already, comes the rest.
void StepWriter::take(const Op& op) {
  advance(op.start);
  Bytes above = op.transient;
  for (const StorageId id : op.outputs) {
    const Place* place = find(id);
    if (place == nullptr || std::ranges::find(born_, place->who) == born_.end()) continue;
    StorageMark& made = record_.storages[place->who];
    if (!made.made_by.valid() && place->on_device) above -= made.size;
    made.made_by = op.name;
  }
  born_.clear();
  record_.ops.push_back({since_begin(op.start), op.duration, op.index, op.name, op.phase});
  if (above <= Bytes{}) return;
  const auto transient = static_cast<std::uint32_t>(record_.transients.size());
  record_.transients.push_back(above);
  point(transient | kTransientBit, kOnDevice);
  pending_ = {since_begin(op.start + op.duration), transient};
}

void StepWriter::put_on_device(Place& place, bool there) {
  if (place.on_device == there) return;
  place.on_device = there;
  point(place.who, static_cast<std::uint8_t>(kOnDevice | (there ? 0 : kGone)));
}

void StepWriter::take(const Move& move) {
  Place* place = find(move.storage);
  if (place == nullptr) return;
  end_transient(move.start);  // and no further: a copy may start long after it was ordered
  StorageMark& storage = record_.storages[place->who];
  const bool in = move.to == TraceTier::device;
  const bool drop = move.to == TraceTier::nowhere;
  ++(in ? storage.in : drop ? storage.dropped : storage.out);
  const Copy copy = in ? Copy::in : drop ? Copy::drop : move.clean ? Copy::clean_out : Copy::out;
  const bool file = move.to == TraceTier::file || move.from == TraceTier::file;
  copy_ops_.emplace_back(record_.copies.size(), move.trigger);
  record_.copies.push_back({since_begin(move.start), move.duration, place->who, copy, file, {}});
  put_on_device(*place, in);
}

void StepWriter::take(const Recompute& recompute) {
  Place* place = find(recompute.storage);
  if (place == nullptr) return;
  end_transient(recompute.start);
  StorageMark& storage = record_.storages[place->who];
  ++storage.recomputed;
  storage.recompute += recompute.duration;
  recompute_ops_.emplace_back(record_.recomputes.size(), recompute.replayed);
  recompute_for_.emplace_back(record_.recomputes.size(), recompute.needed_by);
  record_.recomputes.push_back({since_begin(recompute.start), recompute.duration, place->who, {}, {}});
  put_on_device(*place, true);
}

void StepWriter::take(const Stall& stall) {
  const Place* place = find(stall.storage);
  if (place != nullptr) record_.storages[place->who].waited += stall.duration;
  stall_ops_.emplace_back(record_.stalls.size(), stall.op);
  record_.stalls.push_back(
      {since_begin(stall.start), stall.duration, stall.cause, place == nullptr ? UINT32_MAX : place->who, {}});
}

void StepWriter::take(const Decision& decision) {
  const Place* place = find(decision.storage);
  if (place == nullptr) return;
  std::vector<Decision>& known = record_.storages[place->who].decisions;
  if (known.size() < kMostDecisions) known.push_back(decision);
}

StepRecord StepWriter::finish(Nanos ended, const std::unordered_map<OpIndex, NameId>& name_of) {
  advance(ended);
  record_.duration = std::max(now_, Nanos{1});
  for (MemoryPoint& point : record_.points)
    if ((point.who & kTransientBit) != 0)
      point.who = static_cast<std::uint32_t>(record_.storages.size()) + (point.who & ~kTransientBit);
  const auto name = [&](OpIndex index) {
    const auto found = name_of.find(index);
    return found == name_of.end() ? NameId{} : found->second;
  };
  for (const auto& [at, op] : copy_ops_) record_.copies[at].before = name(op);
  for (const auto& [at, op] : stall_ops_) record_.stalls[at].op = name(op);
  for (const auto& [at, op] : recompute_ops_) record_.recomputes[at].op = name(op);
  for (const auto& [at, op] : recompute_for_) record_.recomputes[at].for_op = name(op);
  return std::move(record_);
}

}  // namespace spillway
