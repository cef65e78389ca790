// Leaving and coming back: victims, moves, fetches.
#include <algorithm>
#include <exception>
#include <limits>

#include "base/error.h"
#include "engine/engine.h"

namespace spillway {

namespace {

// Every look for victims passes all storages. Where there are many thousands, more leave at once than was asked for, so that
// there are fewer looks: a ResNet of 3,000 layers looked for 22 of the 26 seconds of a step.
constexpr std::int64_t kMany = 8192, kManyParts = 512, kMostParts = 64;

Bytes leaving_at_once(Bytes size, std::size_t storages, Bytes limit) {
  return std::max(size, std::min(limit / kManyParts * (static_cast<std::int64_t>(storages) / kMany), limit / kMostParts));
}

}  // namespace

bool Engine::may_leave(const Record& record) const {
  // See Note [Forked children].
  return !child_ && record.residence == Residence::resident && record.pins == 0 && !record.exposed() &&
         (record.size >= options_.smallest || emptying_ > 0) && record.unwilling != asking() &&
         (record.owner != nullptr || record.orphan);
}

// What it costs to have the bytes back: nothing to write if a copy is still good, half of a move then.
double Engine::comeback_nanos(const Record& record) const {
  const double move = static_cast<double>(record.size.count) * options_.move_nanos_per_byte * (record.copy ? 0.5 : 1.0);
  if (options_.leave == Leave::move || record.copy || !may_drop(record)) return move;
  return std::min(move, static_cast<double>(survey(record).time.count));
}

std::vector<Record*> Engine::pick_victims(Bytes size) const {
  const auto cost = [&](ChunkId chunk) {
    const Record* record = chunk.index < by_chunk_.size() ? by_chunk_[chunk.index] : nullptr;
    if (record == nullptr || !may_leave(*record)) return std::numeric_limits<double>::infinity();
    return eviction_score(options_.policy, {.staleness = staleness(*record), .nanos = comeback_nanos(*record)});
  };
  std::vector<Record*> victims;
  const Bytes more = leaving_at_once(size, table_.size(), arena_.limit());
  auto window = arena_.find_window(more, cost);
  if (!window && more > size) window = arena_.find_window(size, cost);
  if (window) {
    for (const ChunkId chunk : window->evict) victims.push_back(by_chunk_[chunk.index]);
  }
  if (!victims.empty()) return victims;
  // No window: whoever is cheapest goes, so that whole granules come free and can be put side by side.
  Record* cheapest = nullptr;
  double best = std::numeric_limits<double>::infinity();
  table_.for_each([&](Record* record) {
    if (!may_leave(*record)) return;
    const double score = cost(record->block.chunk) / static_cast<double>(record->size.count);
    if (score < best || (score == best && record->data < cheapest->data)) std::tie(best, cheapest) = std::pair(score, record);
  });
  if (cheapest != nullptr) victims.push_back(cheapest);
  return victims;
}

bool Engine::make_room(Bytes size, Lock& lock) {
  if (child_) return false;
  if (course_.on) ++course_.surprises;
  bool progress = false;
  std::vector<Record*> victims = pick_victims(size);
  for (Record* victim : victims) ++victim->refs;
  for (Record* victim : victims) {
    if (!may_leave(*victim)) continue;
    if (!evict(victim, options_.leave, lock)) victim->unwilling = asking();
    progress = true;  // it left, or will not be asked again for this op
  }
  for (Record* victim : victims) unref(victim);
  return progress || wait_for_others(lock);
}

// Whoever lies in somebody else's place leaves; nobody does when one of them would stay.
bool Engine::clear_the_way(Range range, Lock& lock) {
  std::vector<Record*> there;
  bool possible = true;
  table_.for_each([&](Record* record) {
    if (!record->block.range.overlaps(range)) return;
    possible = possible && may_leave(*record) && !layout_.is_in_place(record->block.chunk);
    there.push_back(record);
  });
  if (!possible || there.empty()) return false;
  ++course_.surprises;
  evict_these(there, options_.leave, lock);
  return true;
}

void Engine::evict_these(std::vector<Record*>& records, Leave leave, Lock& lock) {
  std::ranges::sort(records, {}, [](const Record* record) { return record->data; });
  for (Record* record : records) ++record->refs;
  for (Record* record : records) {
    if (may_leave(*record)) (void)evict(record, leave, lock);
  }
  for (Record* record : records) unref(record);
}

// See Note [Promote outside the lock].
bool Engine::evict(Record* victim, Leave leave, Lock& lock, std::optional<std::uint32_t> gap) {
  if (victim->orphan) return let_go(*victim, leave, gap);
  const std::uint32_t shown = victim->shown;
  const auto [held, named] = hold(*victim, lock);
  bool left = held == nullptr;  // it died meanwhile: its memory is free or about to be
  if (named) note_name(victim);
  else if (victim->named) recount(*victim, [&] { forget_name(*victim); });
  const bool unwatched = victim->loose || (!named && victim->shown == shown);
  if (held != nullptr && may_leave(*victim) && unwatched) left = may_detach(*victim) && let_go(*victim, leave, gap);
  if (held != nullptr) {
    lock.unlock();
    owner_.unhold(held);
    lock.lock();
  }
  return left;
}

Engine::Held Engine::hold(Record& record, Lock& lock) {
  void* weak = owner_.weak(record);
  lock.unlock();
  void* held = owner_.hold(weak);
  const bool named = held != nullptr && owner_.is_named(held);
  lock.lock();
  if (held == nullptr || named) minutes_.note(CallKind::refused, &record, held != nullptr, named, true);
  return {held, named};
}

bool Engine::may_detach(Record& record) {
  if (owner_.may_detach(record)) return true;
  minutes_.note(CallKind::refused, &record, true, false, false);
  return false;
}

bool Engine::move_out(Record& record) {
  if (finish_early(record) || record.copy) {
    stats_.left_clean += record.size;
    return true;
  }
  const auto& uses = last_uses(record);
  const StallTimes before = lower_waits();
  record.copy = mover_.try_move_out(record.block.range.begin, record.size, uses);
  if (tape_.on()) trace_lower_waits(before);
  refused_below_ |= !record.copy;
  if (!record.copy) return false;
  record.read_until = record.copy->written;
  stats_.moved_out += record.size;
  return true;
}

StallTimes Engine::lower_waits() const {
  return {.fetch = {}, .room = {}, .host_room = mover_.waited(Tier::host), .file = mover_.waited(Tier::file)};
}

void Engine::trace_lower_waits(const StallTimes& before) {
  const StallTimes after = lower_waits();
  const Nanos now = device_.now(), host = after.host_room - before.host_room, file = after.file - before.file;
  if (host > 0_ns) tape_.stall(StallCause::host_room, now - host - file, host);
  if (file > 0_ns) tape_.stall(StallCause::file, now - file, file);
}

// For tests: whoever still looks at the old place sees other bytes. On the compute stream, so that where that is the
// calling thread it has happened when this returns.
Tick Engine::poison(const Record& record, std::span<const Tick> uses) {
  for (const Tick tick : uses) device_.wait(compute_, tick);
  device_.fill(compute_, record.block.range.begin, record.size, std::byte{0xA5});
  return device_.record(compute_);
}

bool Engine::let_go(Record& record, Leave leave, std::optional<std::uint32_t> gap) {
  // A plan that drops it counts on its rebuild, not on the copy an earlier move has left below.
  if (gap && leave == Leave::replay && record.copy && may_drop(record, /*planned=*/true)) forget_copy(record);
  const bool clean = record.copy.has_value();
  const bool droppable = leave != Leave::move && !record.copy && may_drop(record, gap.has_value());
  const double move = static_cast<double>(record.size.count) * options_.move_nanos_per_byte;
  bool drop = droppable && (leave == Leave::replay || static_cast<double>(survey(record).time.count) < move);
  if (!drop && !move_out(record)) {
    record.homeless = !droppable && !may_drop(record, gap.has_value());
    if (record.homeless) return false;
    drop = true;
  }
  auto& uses = last_uses(record);
  const Block block = record.block;
  if (options_.poison) uses = {poison(record, uses)};
  if (!record.orphan) owner_.detach(record);
  give_back(record);
  note_absent(record, +1);
  record.streams = 0;
  record.apart = false;
  free_block(block, uses);
  ++stats_.evictions;
  if (std::exchange(at_ease_, false)) follows_.store(true, std::memory_order_relaxed);
  calm_ = false;
  ++record.departures;
  record.gap = gap;
  record.again = false;
  tight_.store(true, std::memory_order_relaxed);
  if (tape_.on()) {
    const auto copy = drop || clean ? std::nullopt : std::optional(CopySpan{record.copy->began, record.copy->written});
    tape_.move(record, TraceTier::device, drop ? TraceTier::nowhere : trace_tier(*record.copy), clean, copy);
  }
  if (drop) {
    record.residence = Residence::dropped;
    stats_.dropped += record.size;
    collect_leaves(record, record.leaves);
    for (Record* leaf : record.leaves) ++leaf->dependents;
    dropped_.insert(&record);
  } else {
    record.residence = Residence::away;
    away_.insert(&record);
  }
  return true;
}

bool Engine::bring_home(Record* record, Lock& lock) {
  while (record->residence == Residence::arriving) pause(lock);
  if (record->residence == Residence::resident) return true;
  if (record->residence == Residence::away) return fetch(record, lock);
  SPILLWAY_ENSURE(record->residence == Residence::dropped, "a dead storage was asked for");
  rebuild(record, lock);
  return true;
}

bool Engine::fetch(Record* record, Lock& lock) {
  record->residence = Residence::arriving;
  const auto block = take(record->size, mover_.in_stream(), lock, record);
  if (!block) {
    record->residence = Residence::away;
    changed_.tell();
    return false;
  }
  arrive(*record, *block);
  changed_.tell();
  return true;
}

// Enqueues the way in: from now on its storage is there for whoever waits for it.
void Engine::arrive(Record& record, const Block& block) {
  record.arrival = mover_.move_in(*record.copy, block.range.begin, record.size);
  if (tape_.on()) tape_.move(record, trace_tier(*record.copy), TraceTier::device, false, CopySpan{record.copy->began, *record.arrival});
  record.streams = 0;
  stats_.moved_in += record.size;
  away_.erase(&record);
  note_absent(record, -1);
  settle(record, block);
  if (!record.orphan) owner_.attach(record);
}

void Engine::evict_all(Leave leave) {
  Lock lock(mutex_);
  minutes_.note(CallKind::evict_all, leave);
  evict_all(leave, lock);
}

bool Engine::try_drop(Record* record) {
  Lock lock(mutex_);
  minutes_.note(CallKind::try_drop, record);
  ++record->refs;
  if (may_leave(*record) && may_drop(*record)) (void)evict(record, Leave::replay, lock);
  const bool dropped = record->residence == Residence::dropped;
  unref(record);
  return dropped;
}

void Engine::empty_out() {
  Lock lock(mutex_);
  minutes_.note(CallKind::empty_out);
  ++emptying_;
  evict_all(Leave::move, lock);
  --emptying_;
  // Free memory that stays where it is lies in pieces of other sizes than those asked for next; memory taken anew grows in one.
  lock.unlock();
  (void)arena_.trim(/*wait=*/true);
}

void Engine::evict_all(Leave leave, Lock& lock) {
  std::vector<Record*> all;
  table_.for_each([&](Record* record) {
    if (may_leave(*record)) all.push_back(record);
  });
  evict_these(all, leave, lock);
}

bool Engine::bring_all_home() {
  Lock lock(mutex_);
  minutes_.note(CallKind::bring_all_home);
  std::vector<Record*> out(dropped_.begin(), dropped_.end());
  out.insert(out.end(), away_.begin(), away_.end());
  // Pinned until all are there, those at home as well: nobody may leave for another.
  std::vector<Record*> all_records = out;
  table_.for_each([&](Record* record) { all_records.push_back(record); });
  for (Record* record : all_records) ++record->pins;
  bool all = true;
  std::exception_ptr failed;  // a rebuild found no room
  for (Record* record : out) {
    if (failed || record->orphan || (record->residence != Residence::away && record->residence != Residence::dropped)) continue;
    void* weak = owner_.weak(*record);
    lock.unlock();
    void* held = owner_.hold(weak);
    lock.lock();
    try {
      if (held != nullptr && !bring_home(record, lock)) all = false;
    } catch (...) {
      failed = std::current_exception();
    }
    lock.unlock();
    if (held != nullptr) owner_.unhold(held);
    lock.lock();
  }
  mover_.drain();  // whoever reads from now on does it without asking
  for (Record* record : all_records) drop_pin(record);
  if (failed) std::rethrow_exception(failed);
  return all;
}

}  // namespace spillway
