// What no budget can do without, and why there was no room: what cannot leave, counted by the reason.
#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/own.h"

namespace spillway {

// Who is in use stays in the count of those that cannot leave until its op is counted: it is not among the inputs then.
Bytes Engine::ask_for_names(Lock& lock) {
  struct Asked { Record* record; void* weak; bool named; };
  std::vector<Asked> asked;
  for (Record* record : named_) {
    if (record->pins > 0 || record->owner == nullptr) continue;
    ++record->refs;
    asked.push_back({record, owner_.weak(*record), false});
  }
  lock.unlock();
  for (Asked& one : asked) {
    void* held = owner_.hold(one.weak);
    if (held == nullptr) continue;
    one.named = owner_.is_named(held);
    owner_.unhold(held);
  }
  lock.lock();
  Bytes free_again;
  for (const Asked& one : asked) {
    const Bytes before = movable_bytes(*one.record);
    if (!one.named && one.record->named) {
      lose_name(one.record);
      free_again += movable_bytes(*one.record) - before;
    }
    unref(one.record);
  }
  return free_again;
}

void Engine::note_name(Record* record) {
  if (record->named || record->residence != Residence::resident) return;
  recount(*record, [&] { record->named = true; });
  named_.insert(record);
}

void Engine::lose_name(Record* record) {
  minutes_.note(CallKind::lose_name, record);
  recount(*record, [&] { forget_name(*record); });
}

void Engine::forget_name(Record& record) {
  if (std::exchange(record.named, false)) named_.erase(&record);
}

void Engine::loosen(Record* record, bool loose) {
  minutes_.note(CallKind::loosen, record, loose);
  if (record->residence == Residence::resident) recount(*record, [&] { record->loose = loose; });
  else record->loose = loose;
}

Bytes Engine::needed(const OpBytes& bytes) { return own.cannot_leave + bytes.inputs + std::max(bytes.transient, 0_B); }

void Engine::note_op(const OpBytes& bytes, const std::string& name, Lock& lock) {
  returns_.need = bytes.inputs + bytes.transient;
  if (needed(bytes) > stats_.floor && !own.beside_rebuild) [[unlikely]] raise_floor(bytes, name, lock);
}

void Engine::raise_floor(const OpBytes& bytes, const std::string& name, Lock& lock) {
  if (!named_.empty()) own.cannot_leave -= ask_for_names(lock);
  if (needed(bytes) <= stats_.floor) return;
  stats_.floor = needed(bytes);
  stats_.floor_op = {.name = name, .inputs = bytes.inputs, .outputs = bytes.outputs, .transient = bytes.transient, .cannot_leave = own.cannot_leave};
}

// Memory nobody has shown yet cannot leave, nor can what is asked for outside any op.
void Engine::note_new(Bytes size, Lock& lock) {
  if (rebuilding_ > 0 || regions_ > 0) return;
  if (!named_.empty()) (void)ask_for_names(lock);
  const Bytes needed = live_ - evictable_ - in_ops_;
  if (needed <= stats_.floor) return;
  stats_.floor = needed;
  stats_.floor_op = {.name = "a new tensor", .inputs = {}, .outputs = size, .transient = size, .cannot_leave = needed - size};
}

// What a rebuild makes for a while is in no op's count either.
void Engine::note_region() {
  const Bytes needed = live_ - evictable_;
  if (rebuilding_ > 0 || needed <= stats_.floor) return;
  const Bytes made = std::max(needed - kept_ - cannot_leave_before_, 0_B);
  stats_.floor = needed;
  stats_.floor_op = {.name = "a compiled graph or another region of unseen kernels", .inputs = kept_, .outputs = {},
                     .transient = made, .cannot_leave = needed - kept_ - made};
}

Shortage Engine::shortage(Bytes asked) const {
  Shortage why;
  why.asked = asked;
  why.crowded = own.crowded;
  why.budget = arena_.limit();
  const PoolStats arena = arena_.stats();
  why.free = why.budget - arena.live;
  why.longest_free = std::max(arena.largest_free, why.budget - arena.reserved);
  why.host_limit = mover_.limit(Tier::host);
  why.file = mover_.limit(Tier::file) > 0_B;
  table_.for_each([&](const Record* record) { reason_to_stay(*record, why) += record->block.range.length(); });
  return why;
}

Bytes& Engine::reason_to_stay(const Record& record, Shortage& why) const {
  if (record.kept > 0) return why.kept;
  if (record.pins > 0) return why.pinned;
  if (record.owner == nullptr && !record.orphan) return why.anonymous;
  if (record.exposed()) return why.held;
  if (record.size < options_.smallest) return why.small;
  if (record.unwilling != asking()) return why.evictable;
  if (record.named && !record.loose) return why.named;
  return record.homeless ? why.homeless : why.pinned;  // another thread had it in hand
}

// Their bytes, each once.
Bytes Engine::not_there(std::span<const Use> uses) {
  Bytes sum;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Record* record = uses[i].record;
    const auto same = [&](const Use& use) { return use.record == record; };
    if (record->residence != Residence::resident && std::ranges::none_of(uses.first(i), same)) sum += record->size;
  }
  return sum;
}

}  // namespace spillway
