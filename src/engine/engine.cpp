#include "engine/engine.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "engine/own.h"

namespace spillway {

namespace {

constexpr std::uint64_t kOpsBetweenLooks = 64;  // at waits: times are kept for a few hundred ops at least

std::uint64_t bit(StreamId stream) { return std::uint64_t{1} << (stream.index & 63); }

PoolOptions device_pool(const EngineOptions& options) {
  const Bytes whole = round_down(options.budget.value_or(options.address_space), options.granule);
  // Half of the addresses are for blocks that have a place of their own.
  return {.address_space = options.address_space,
          .limit = whole,
          .granule = options.granule,
          .alignment = options.alignment,
          .placed_from = options.places ? round_up(options.address_space / 2, options.granule) : 0_B};
}

}  // namespace

Engine::Engine(Device& device, Owner& owner, StreamId compute, const EngineOptions& options, std::unique_ptr<BlockSource> source)
    : device_(device),
      owner_(owner),
      compute_(compute),
      options_(options),
      source_(source ? std::move(source) : std::make_unique<Arena>(device, Tier::device, device_pool(options))),
      arena_(*source_),
      mover_(device, {.host_limit = options.host_limit, .file_limit = options.file_limit, .host_granule = options.host_granule}),
      apart_(arena_.placed_from() == 0_B ? 0_B : arena_.placed_from() + round_down((options.address_space - arena_.placed_from()) / 2, options.granule)) {
  (void)meet(compute_);
  (void)meet(mover_.out_stream());
  (void)meet(mover_.in_stream());
  mover_.watch_rates(options.plans != nullptr);
  arena_.set_ask([this](Tick tick) { return ask(tick); });
  mover_.set_ask([this](Tick tick) { return ask(tick); });
  // Blocks are asked for with the engine's lock held.
  arena_.set_wait([this](StreamId on, Tick awaited) {
    if (const auto before = wait_beside_host(on, awaited, is_late(on, awaited))) note_wait({.before = *before, .awaited = awaited, .cause = StallCause::room, .step = step_});
  });
}

// Recipes belong to the records they are for.
Engine::~Engine() {
  early_.step.fetch_add(1);
  shelf_.for_each([&](Record& record) {
    for (Recipe* recipe : record.recipes) {
      if (--recipe->refs == 0) dying_.push_back(recipe);
    }
  });
  for (const Recipe* recipe : dying_) delete recipe;
}

// Whether the device is done with it: what hangs on the answer comes out the same when the run is played again.
bool Engine::ask(Tick tick) {
  const bool done = options_.is_done ? options_.is_done(tick) : device_.query(tick);
  minutes_.note(CallKind::answer, done);
  return done;
}

// --- memory ---------------------------------------------------------------------------------------------------------

std::optional<Block> Engine::take(Bytes size, StreamId on, Lock& lock, const Record* returns) {
  own.crowded = false;
  if (std::exchange(refused_, false)) ++refusals_;  // whoever would not leave may have changed its mind since
  const Nanos waited = tape_.on() ? arena_.waited() : 0_ns;
  for (;;) {
    if (auto block = try_take(size, on, lock, returns)) {
      if (tape_.on()) trace_room_wait(arena_.waited() - waited);
      return block;
    }
    if (size > arena_.limit() || !make_room(size, lock)) {  // for what can never fit nobody leaves
      refused_ = true;
      return std::nullopt;
    }
  }
}

std::optional<Block> Engine::try_take(Bytes size, StreamId on, Lock& lock, const Record* returns, bool only) {
  const Bytes whole = round_up(size, options_.alignment);
  std::optional<Block> block;
  auto place = find_place(whole, returns);
  if (place) block = arena_.try_allocate_at(place->range, on);
  if (place && !block && clear_the_way(place->range, lock)) block = arena_.try_allocate_at(place->range, on);
  if (!block && !(place && only)) {
    place.reset();
    block = arena_.try_allocate(size, on);
  }
  if (commits_ != arena_.commits()) note_reserved();
  if (block) layout_.took(block->chunk, whole, place), count_open(*block, +1);
  if (block && place) apart_.took(block->range);
  return block;
}

std::optional<Layout::Place> Engine::find_place(Bytes size, const Record* returns) const {
  if (returns == nullptr) return layout_.find_place(size, kNoPlace);
  if (returns->apart) return Layout::Place{.range = apart_.find(size)};
  if (returns->gap) return layout_.find_place(size, *returns->gap);
  return layout_.find_lasting_place(returns->id, size);
}

void Engine::free_block(const Block& block, std::span<const Tick> last_uses) {
  layout_.freed(block.chunk);
  count_open(block, -1);
  apart_.freed(block.range);
  arena_.free(block, last_uses);
}

void Engine::count_open(const Block& block, int sign) {
  if (block.range.begin >= arena_.placed_from()) return;
  open_ += block.range.length() * sign;
  open_peak_ = std::max(open_peak_, open_);
}

void Engine::trace_room_wait(Nanos took) {
  if (took > 0_ns) tape_.stall(StallCause::room, device_.now() - took, took);
}

void Engine::note_reserved() {
  commits_ = arena_.commits();
  const Bytes reserved = arena_.reserved() + outside_;
  peak_reserved_ = std::max(peak_reserved_, reserved);
  recent_.reserved = std::max(recent_.reserved, reserved);
  if (options_.budget && reserved > *options_.budget) ++stats_.violations;
}

std::uint64_t Engine::meet(StreamId stream) {
  most_stream_ = std::max(most_stream_, stream.index);
  return bit(stream);
}

// The record has a block from now on.
void Engine::settle(Record& record, const Block& block) {
  record.block = block;
  record.data = device_.address(Tier::device, block.range.begin);
  record.residence = Residence::resident;
  table_.insert(record.data, &record);
  if (by_chunk_.size() <= block.chunk.index) by_chunk_.resize(block.chunk.index + 1, nullptr);
  by_chunk_[block.chunk.index] = &record;
  count(record, +1);
}

Record* Engine::try_allocate(Bytes size, StreamId on, const char* maker) {
  Lock lock(mutex_);
  const Minutes::Call call(minutes_, lock);
  minutes_.note(CallKind::allocate, size, on);
  const auto effort = [&] { return std::tuple(arena_.waited(), arena_.commits(), arena_.remaps(), stats_.evictions); };
  const auto before = wants_times() ? effort() : decltype(effort()){};
  const auto block = take(size, on, lock, nullptr);
  if (!block) {
    minutes_.note(CallKind::failed);
    return nullptr;
  }
  if (wants_times() && effort() != before) owner_.waited_for_memory();
  Record* record = shelf_.take();
  record->id = StorageId{storages_++};
  record->size = size;
  asked_ += size;
  record->streams = meet(on);
  record->last_use = record->born = record->forward_use = clock_;
  record->born_step = step_;
  record->maker = maker;
  settle(*record, *block);
  meter(block->range.length());
  record->hidden = own.rebuilding > 0;
  if (maker == nullptr && live_ - evictable_ - in_ops_ > stats_.floor) [[unlikely]] note_new(size, lock);
  if (!record->hidden) recorder_.birth(*record);
  if (tape_.on()) tape_.birth(*record);
  return record;
}

void Engine::count(const Record& record, int sign) {
  const Bytes bytes = record.block.range.length() * sign;
  live_ += bytes;
  peak_live_ = std::max(peak_live_, live_);
  if (rebuilding_ == 0) stats_.plain_peak = std::max(stats_.plain_peak, live_ + absent_);
  recent_.live = std::max(recent_.live, live_);
  (record.kept > 0 ? kept_ : evictable_) += movable_bytes(record) * sign;
  if (regions_ > 0) note_region();
}

// Zero: it never leaves, pins or not.
Bytes Engine::movable_bytes(const Record& record) const {
  const bool may = (record.owner != nullptr || record.orphan) && !record.exposed() && (!record.named || record.loose) &&
                   record.size >= options_.smallest;
  return may ? record.block.range.length() : 0_B;
}

void Engine::note_absent(const Record& record, int sign) {
  if (!record.orphan) absent_ += round_up(record.size, options_.alignment) * sign;
}

// Good until the next call.
std::vector<Tick>& Engine::last_uses(const Record& record) {
  std::vector<Tick>& ticks = last_uses_;
  ticks.clear();
  for (std::uint64_t left = record.streams; left != 0; left &= left - 1) {
    // Streams beyond the 64th share their bits: all that may be meant are.
    for (auto stream = static_cast<std::uint32_t>(std::countr_zero(left)); stream <= most_stream_; stream += 64) {
      ticks.push_back(device_.mark(StreamId{stream}));
    }
  }
  // A way in that nobody waited for is a last use of its own.
  if (record.arrival && (record.streams & bit(mover_.in_stream())) == 0) ticks.push_back(*record.arrival);
  if (record.read_until.value > 0) ticks.push_back(record.read_until);
  return ticks;
}

// The block goes back to the arena; the record keeps its identity.
void Engine::give_back(Record& record) {
  count(record, -1);
  forget_name(record);
  table_.erase(record.data);
  by_chunk_[record.block.chunk.index] = nullptr;
  record.data = nullptr;
  record.arrival.reset();
  record.arrived_on = 0;
  record.read_until = {};
}

void Engine::forget_copy(Record& record) {
  if (!record.copy) return;
  mover_.forget(*record.copy);
  record.copy.reset();
}

void Engine::note_stream(const void* data, StreamId stream) {
  const Lock lock(mutex_);
  if (Record* record = table_.find(data)) record->streams |= meet(stream);
}

bool Engine::free(void* data) {
  Lock lock(mutex_);
  const Minutes::Call call(minutes_, lock);
  Record* record = table_.find(data);
  if (record == nullptr) return false;
  minutes_.note(CallKind::free, record);
  meter(-record->block.range.length());
  if (!record->hidden) recorder_.death(*record);
  if (record->outlives || (record->dependents > 0 && !(course_.on && try_spare(*record)))) {
    recount(*record, [&] {
      if (record->owner != nullptr) owner_.disown(*record);
      record->orphan = true;
      record->held = false;
    });
    return true;
  }
  if (tape_.on()) tape_.death(*record);
  const Block block = record->block;
  const auto& uses = last_uses(*record);
  give_back(*record);
  if (record->owner != nullptr) owner_.disown(*record);
  free_block(block, uses);
  forget_copy(*record);
  bury(record);
  changed_.tell();
  return true;
}

void Engine::died(Record* record) {
  const Lock lock(mutex_);
  minutes_.note(CallKind::died, record);
  note_absent(*record, -1);
  meter(-round_up(record->size, options_.alignment));
  recorder_.death(*record);
  // As an orphan; a dropped one only where those that are made from it could not be rebuilt without its coming back.
  const bool dropped = record->residence == Residence::dropped;
  const bool stays = dropped ? record->dependents > 0 && !heirs_do_without(*record, course_.on) : record->dependents > 0 || record->outlives;
  if (tape_.on() && !stays) tape_.death(*record);
  owner_.disown(*record);
  if (stays) {
    record->orphan = true;
    return;
  }
  if (dropped) {
    if (record->dependents > 0) inherit_leaves(*record);
    undrop(*record);
  } else {
    away_.erase(record);
    forget_copy(*record);
  }
  bury(record);
}

// --- ops ------------------------------------------------------------------------------------------------------------

void Engine::adopt(Record* record, void* owner) {
  minutes_.note(CallKind::adopt, record, owner != nullptr);
  recount(*record, [&] {
    if (record->owner != nullptr) owner_.disown(*record);
    record->owner = owner;
  });
}

void Engine::hold_for_life(Record* record) {
  if (record->held) return;
  minutes_.note(CallKind::hold_for_life, record);
  recount(*record, [&] { record->held = true; });
}

void Engine::lend(Record* record, Lock& lock) {
  minutes_.note(CallKind::lend, record);
  note_write(record, lock);
  ++record->refs;
  recount(*record, [&] { ++record->loans; });
}

// What was lent may have been written until now: only from here on its bytes are known to stay what they are.
void Engine::end_loan(Record* record, Lock& lock) {
  SPILLWAY_ENSURE(record->loans > 0, "a loan ended twice");
  minutes_.note(CallKind::end_loan, record);
  const bool here = record->data != nullptr;  // otherwise its storage died, or was given other memory
  if (here) note_write(record, lock);
  if (here) recount(*record, [&] { --record->loans; });
  else --record->loans;
  unref(record);
  changed_.tell();
}

void Engine::begin_region() {
  minutes_.note(CallKind::begin_region);
  if (regions_++ == 0) cannot_leave_before_ = live_ - evictable_;
}

void Engine::keep(Record* record) {
  minutes_.note(CallKind::keep, record);
  ++record->pins;
  if (record->kept++ > 0) return;
  kept_ += movable_bytes(*record);
  evictable_ -= movable_bytes(*record);
  note_region();
}

void Engine::end_region(std::span<Record* const> kept) {
  minutes_.note_records(CallKind::end_region, kept);
  --regions_;
  for (Record* record : kept) {
    if (--record->kept == 0 && record->residence == Residence::resident) {
      kept_ -= movable_bytes(*record);
      evictable_ += movable_bytes(*record);
    }
    drop_pin(record);
  }
}

// Pins all and brings all home, or nothing. A rebuild may fail beside the other arguments and succeed without them.
std::optional<Shortage> Engine::try_gather(std::span<const Use> uses, Lock& lock) {
  for (bool last_resort = false;; last_resort = true) {
    for (const Use& use : uses) ++use.record->pins;
    try {
      const Record* missing = gather(uses, lock);
      if (missing == nullptr) return std::nullopt;
      Shortage why = shortage(missing->size);
      why.coming = not_there(uses);
      for (const Use& use : uses) drop_pin(use.record);
      return why;
    } catch (...) {
      for (const Use& use : uses) drop_pin(use.record);
      const bool rebuilds = std::ranges::any_of(uses, [](const Use& use) {
        return use.record->residence == Residence::dropped || (use.write && use.record->dependents > 0);
      });
      if (last_resort || !rebuilds) throw;
    }
    turn_drops_into_moves(uses, lock);
  }
}

// The first that could not come home, if any.
const Record* Engine::gather(std::span<const Use> uses, Lock& lock) {
  // From here on nobody is dropped who needs the bytes as they are: making room for one argument must not leave a storage
  // to be rebuilt from another that the op is about to change.
  for (const Use& use : uses) use.record->epoch += use.write ? 1 : 0;
  for (const Use& use : uses) {
    if (use.write && use.record->dependents > 0) before_write(use.record, lock);
    if (use.record->residence != Residence::resident && !bring_home(use.record, lock)) return use.record;
  }
  return nullptr;
}

// While it waits nothing is pinned: when that does not help, it waits for a turn.
std::optional<Shortage> Engine::gather_beside_others(std::span<const Use> uses, Lock& lock) {
  std::optional<Shortage> why;
  while ((why = try_gather(uses, lock))) {
    if (wait_for_others(lock)) continue;
    if (!own.crowded) return why;
    begin_turn(lock);
    try {
      why = try_gather(uses, lock);
    } catch (...) {
      end_turn();
      throw;
    }
    end_turn();
    return why;
  }
  return why;
}

void Engine::begin_flight() {
  ++own.in_flight;
  if (++in_flight_ > own.in_flight && options_.budget) crowds_.store(true, std::memory_order_relaxed);
}

void Engine::end_flight() {
  --in_flight_;
  --own.in_flight;
  changed_.tell();
}

std::optional<Shortage> Engine::acquire(std::span<const Use> uses, StreamId on, Lock& lock) {
  minutes_.note_uses(on, uses);
  wait_for_turns(lock);
  begin_flight();
  std::optional<Shortage> why;
  try {
    why = gather_beside_others(uses, lock);
  } catch (...) {
    minutes_.note(CallKind::failed);
    end_flight();
    throw;
  }
  if (why) {
    minutes_.note(CallKind::failed);
    end_flight();
    return why;
  }
  if (returns_.backward && own.rebuilding == 0) note_backward(uses);
  if (++clock_ % kOpsBetweenLooks == 0) settle_waits();
  const bool first = own.rebuilding == 0;  // for the program, not to make another again
  ++stats_.ops;
  std::vector<Arrival> waits;
  // It is there for a stream once this one's wait is over: another thread on the same stream waits for itself until then.
  for (const Use& use : uses) {
    Record& record = *use.record;
    record.last_use = clock_;
    if (first) record.forward_use = returns_.backward ? 0 : clock_;
    record.streams |= meet(on);
    // A stream beyond the 64th shares its bit and waits each time.
    if (record.arrival && (on.index >= 64 || (record.arrived_on & bit(on)) == 0)) {
      waits.push_back({&record, *record.arrival, record.copy && record.copy->tier == Tier::file ? StallCause::file : StallCause::fetch});
    }
    if (use.write) forget_copy(record);
  }
  for (const Arrival& arrival : waits) wait_for_arrival(arrival, on, lock);
  return std::nullopt;
}

void Engine::wait_for_arrival(const Arrival& arrival, StreamId on, Lock& lock) {
  const bool late = is_late(on, arrival.tick);
  lock.unlock();
  const Nanos begin = device_.now();
  const auto before = wait_beside_host(on, arrival.tick, late);
  const Nanos took = device_.now() - begin;
  lock.lock();
  if (on.index < 64) arrival.record->arrived_on |= bit(on);
  if (before) return note_wait({.before = *before, .awaited = arrival.tick, .cause = arrival.cause, .gap = course_.gap_of(*arrival.record), .step = step_});
  stats_.stalls.of(arrival.cause) += took;
  tape_.stall(arrival.cause, begin, took);
}

// Whether the stream will stand still for a copy, as far as that is of interest: copy streams stand still for the sake of others,
// and of streams that are not ours nobody knows the times.
bool Engine::is_late(StreamId on, Tick awaited) {
  const auto copies = [&](StreamId stream) { return stream == mover_.in_stream() || stream == mover_.out_stream(); };
  if (child_ || !copies(awaited.stream) || copies(on)) return false;
  const bool late = options_.is_done ? !options_.is_done(awaited) : is_running(device_, awaited);
  minutes_.note(CallKind::answer, !late);
  return late;
}

// Orders the stream after a tick. The point before that, if it is the stream that waits and not the host.
std::optional<Tick> Engine::wait_beside_host(StreamId on, Tick awaited, bool late) {
  const Tick before = late ? device_.record_timed(on) : Tick{};
  arena_.wait(on, awaited);
  return late && is_running(device_, awaited) ? std::optional(before) : std::nullopt;
}

void Engine::note_wait(const StreamWait& wait) {
  waits_.add(wait);
  tape_.stall(wait.cause, CopySpan{wait.before, wait.awaited});
}

void Engine::settle_waits() {
  waits_.settle(device_, [&](const StreamWait& wait, Nanos stall) {
    stats_.stalls.of(wait.cause) += stall;
    if (wait.gap != kNoPlace) course_.leads.note(wait.gap, wait.step, stall);
  });
}

// An orphan nobody needs any more.
void Engine::dispose(Record* orphan) {
  if (tape_.on()) tape_.death(*orphan);
  if (orphan->residence == Residence::resident) {
    const Block block = orphan->block;
    const auto& uses = last_uses(*orphan);
    give_back(*orphan);
    free_block(block, uses);
  }
  if (orphan->residence == Residence::dropped) undrop(*orphan);
  away_.erase(orphan);
  forget_copy(*orphan);
  bury(orphan);
}

void Engine::dispose_if_unneeded(Record* record) {
  if (record->orphan && record->dependents == 0 && record->pins == 0 && !record->outlives) dispose(record);
}

void Engine::pin(Record* record) {
  minutes_.note(CallKind::pin, record);
  ++record->pins;
}

void Engine::unpin(Record* record) {
  minutes_.note(CallKind::unpin, record);
  drop_pin(record);
}

void Engine::drop_pin(Record* record) {
  if (--record->pins > 0) return;
  if (record->orphan) dispose_if_unneeded(record);
  else if (record->residence == Residence::gone) bury(record);
}

void Engine::release(std::span<const Use> uses) {
  minutes_.note(CallKind::release, uses.size());
  for (const Use& use : uses) drop_pin(use.record);
  end_flight();
}

void Engine::note_outside_write(Record* record, Lock& lock) {
  minutes_.note(CallKind::outside_write, record);
  note_write(record, lock);
}

void Engine::note_write(Record* record, Lock& lock) {
  if (record->dependents > 0) before_write(record, lock);
  forget_copy(*record);
  ++record->epoch;
  forget_recipes(record);
}

// --- forks ----------------------------------------------------------------------------------------------------------

void Engine::before_fork() {
  mutex_.lock();
  study_.before_fork();
  planner_.before_fork();
  mover_.before_fork();
  arena_.before_fork();
  device_.before_fork();
}

void Engine::after_fork(bool child) {
  device_.after_fork();
  arena_.after_fork();
  mover_.after_fork(child, compute_);
  planner_.after_fork();
  study_.after_fork();
  if (child) become_child();
  mutex_.unlock();
}

// What other threads were about is not carried on here: whom they were bringing home is where it was.
void Engine::become_child() {
  const auto turn_back = [](const RecordList& out, Residence residence) {
    for (Record* record : out) {
      if (record->residence == Residence::arriving) record->residence = residence;
    }
  };
  turn_back(away_, Residence::away);
  turn_back(dropped_, Residence::dropped);
  in_flight_ = own.in_flight;
  waiting_ = rebuilding_ = patient_ = queued_ = 0;
  asked_to_give_up_ = false;
  turn_taken_ = own.turns > 0;
  in_ops_ = own.metered ? own.made : 0_B;
  changed_.forget();
  if (std::exchange(child_, true)) return;
  course_.on = false;
  layout_.leave_course();
  waits_ = {};
  tape_.forget();
  arena_.set_limit(options_.address_space);
}

}  // namespace spillway
