#include "engine/tape.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/stalls.h"

namespace spillway {

namespace {

template <class E>
Event as_event(E event) { return Event(std::move(event)); }

Event as_event(const OpView& op) {
  const auto list = [](std::span<const StorageId> ids) { return std::vector<StorageId>(ids.begin(), ids.end()); };
  return Op{op.index,     op.name,      op.phase,      op.job,     op.step,         op.stream,        op.start,         op.duration,
            op.transient, op.workspace, op.replayable, op.why_not, list(op.inputs), list(op.outputs), list(op.mutated), list(op.aliased),
            op.lean,      op.again};
}

Event as_event(const CallView& call) { return Call{call.kind, {call.words.begin(), call.words.end()}}; }

bool contains(std::span<const StorageId> ids, StorageId id) { return std::ranges::find(ids, id) != ids.end(); }

// Whoever is on its way home is told as there when it has come.
TraceTier tier_of(const Record& record) {
  if (record.residence == Residence::resident) return TraceTier::device;
  return record.copy && record.residence != Residence::dropped ? trace_tier(*record.copy) : TraceTier::nowhere;
}

}  // namespace

void Tape::open(const std::string& path, Device& device, std::span<const StreamId> copies, const WriterOptions& kept,
                std::span<const Record* const> living) {
  open(std::make_unique<TraceWriter>(path, kept), device, copies, living);
}

void Tape::open(std::unique_ptr<TraceWriter> writer, Device& device, std::span<const StreamId> copies, std::span<const Record* const> living) {
  writer_ = std::move(writer);
  device_ = &device;
  began_ = device.now();
  has_calls_ = false;
  ops_ = step_ = storages_ = 0;  // another may have been closed before
  told_ = {};
  newborn_.clear();
  anchors_.clear();
  for (const StreamId stream : copies) {
    const Tick tick = device.record(stream);
    device.synchronize(tick);
    anchors_.push_back({.tick = tick, .at = device.now()});
  }
  for (const Record* record : living) announce(*record, tier_of(*record));
  write(StepBegin{.step = StepIndex{0}, .job = kJob, .at = {}, .signature = {}});
}

void Tape::close() {
  if (!on()) return;
  if (has_calls_) call(CallKind::end, {});
  for (const Waiting& waiting : waiting_) {
    try {
      if (waiting.copy) device_->synchronize(waiting.copy->done);
    } catch (const DeviceError&) {
      break;  // told to whoever needs the bytes
    }
  }
  write_settled();
  for (const Waiting& waiting : waiting_) writer_->write(waiting.event);
  waiting_.clear();
  copies_.clear();
  stalls_.clear();
  writer_->close();
  writer_.reset();
}

void Tape::forget() { (void)writer_.release(); }

// --- copies that are under way --------------------------------------------------------------------------------------

template <class E>
void Tape::write(E event) {
  if (waiting_.empty()) writer_->write(event);
  else waiting_.push_back({.event = as_event(std::move(event)), .copy = {}});
}

template <class E>
void Tape::settle_first(std::deque<Waiting*>& pending) {
  for (; !pending.empty(); pending.pop_front()) {
    Waiting& first = *pending.front();
    if (!settle(std::get<E>(first.event), *first.copy) && pending.size() <= kMostCopies) break;
    first.copy.reset();
  }
}

void Tape::write_settled() {
  settle_first<Stall>(stalls_);
  settle_first<Move>(copies_);
  for (; !waiting_.empty() && !waiting_.front().copy && !waiting_.front().timed; waiting_.pop_front()) {
    const auto* stall = std::get_if<Stall>(&waiting_.front().event);
    if (stall == nullptr || stall->duration > 0_ns) writer_->write(waiting_.front().event);
  }
}

// The device runs them one after the other, none before the host told it to.
void Tape::set_times(std::span<const Nanos> durations) {
  const bool all = std::ssize(durations) == std::ranges::count(waiting_, true, &Waiting::timed);
  auto next = durations.begin();
  Nanos free;
  for (Waiting& waiting : waiting_) {
    if (!std::exchange(waiting.timed, false) || !all) continue;
    Op& op = std::get<Op>(waiting.event);
    op.start = std::max(op.start, free);
    op.duration = *next++;
    free = op.start + op.duration;
  }
}

// True when the copy is done and its times are in.
bool Tape::settle(Move& move, const CopySpan& copy) {
  try {
    if (!device_->query(copy.done)) return false;
  } catch (const DeviceError&) {
    return true;  // it failed: told to whoever needs the bytes; here it has no times
  }
  move.duration = std::max(device_->elapsed(copy.began, copy.done), 0_ns);
  move.start = std::max(time_of(copy.done) - move.duration - began_, 0_ns);
  return true;
}

bool Tape::settle(Stall& stall, const CopySpan& wait) {
  const auto took = find_stall(*device_, wait.began, wait.done);
  if (!took) return false;
  stall.duration = *took;
  if (*took > 0_ns) stall.start = std::max(time_of(wait.done) - *took - began_, 0_ns);
  return true;
}

// From the last tick of the stream whose time is known; too long ago to compare with: the moment it is seen done.
Nanos Tape::time_of(Tick done) {
  const auto anchor = std::ranges::find(anchors_, done.stream, [](const Anchor& one) { return one.tick.stream; });
  if (anchor == anchors_.end()) return device_->now();
  const bool later = done.value >= anchor->tick.value;
  const bool near = (later ? done.value - anchor->tick.value : anchor->tick.value - done.value) < kTickWindow / 2;
  const Nanos at = std::min(near ? anchor->at + device_->elapsed(anchor->tick, done) : device_->now(), device_->now());
  if (later) *anchor = {.tick = done, .at = at};
  return at;
}

// --- events ---------------------------------------------------------------------------------------------------------

void Tape::fact(std::string key, std::string value) {
  if (on()) write(Fact{.key = std::move(key), .value = std::move(value)});
}

void Tape::call(CallKind kind, std::span<const std::uint64_t> words) {
  has_calls_ = true;
  write(CallView{.kind = kind, .words = words});
}

void Tape::budget(Bytes bytes) {
  if (on()) write(BudgetChange{.budget = bytes, .job = kJob, .at = now()});
}

void Tape::plan(std::string_view policy, Bytes budget, const Prediction& predicted, Nanos took) {
  if (!on()) return;
  write(PlanMade{.policy = writer_->intern(policy), .job = kJob, .step = StepIndex{step_}, .budget = budget,
                 .predicted_peak = predicted.peak, .shortfall = predicted.over, .predicted_time = predicted.time, .took = took, .at = now()});
}

void Tape::decide(StorageId storage, Action action, std::uint32_t ops, std::string_view why) {
  const StorageId number = on() ? number_of(storage) : StorageId{};
  if (!number.valid()) return;
  write(Decision{.storage = number, .action = action, .at = current(), .until = OpIndex{ops_ + ops},
                 .reason = why.empty() ? NameId{} : writer_->intern(why), .job = kJob, .planned = true});
}

// Somebody may open the trace while another thread is about to tell of a birth: it is told once.
void Tape::birth(const Record& record) {
  if (!on() || told_.find(record.id.index) != nullptr) return;
  announce(record, TraceTier::device);
  if (record.maker != nullptr) newborn_.push_back(record.id);
}

void Tape::announce(const Record& record, TraceTier tier) {
  const StorageId number{storages_++};
  told_.put(record.id.index, {.number = number});
  write(StorageBirth{.storage = number, .size = record.size, .kind = StorageKind::unknown, .job = kJob, .at = now(), .tier = tier});
}

// What is gone before its operator ended was that operator's own.
void Tape::death(const Record& record) {
  if (!on()) return;
  if (std::erase(newborn_, record.id) > 0) set_role(record.id, StorageKind::workspace);
  write(StorageDeath{.storage = number_of(record.id), .at = now()});
  told_.erase(record.id.index);
}

void Tape::op(const OpNote& note) {
  if (!on()) return;
  write_settled();
  guess_roles(note);
  const OpView op{.index = OpIndex{ops_++},
               .name = writer_->intern(note.name),
               .phase = note.phase,
               .job = kJob,
               .step = StepIndex{step_},
               .stream = note.stream,
               .start = note.start - began_,
               .duration = note.duration,
               .transient = note.transient,
               .workspace = {},
               .replayable = note.why_not.empty(),
               .why_not = note.why_not.empty() ? NameId{} : writer_->intern(note.why_not),
               .inputs = numbers_of(note.inputs, lists_[0]),
               .outputs = numbers_of(note.outputs, lists_[1]),
               .mutated = numbers_of(note.mutated, lists_[2]),
               .aliased = numbers_of(note.aliased, lists_[3]),
               .lean = note.lean,
               .again = note.again};
  if (note.timed) waiting_.push_back({.event = as_event(op), .copy = {}, .timed = true});
  else write(op);
}

void Tape::move(const Record& record, TraceTier from, TraceTier to, bool clean, std::optional<CopySpan> copy) {
  if (!on()) return;
  write_settled();
  const Move event{.storage = number_of(record.id), .from = from, .to = to, .size = record.size, .trigger = current(), .start = now(), .duration = {}, .clean = clean};
  if (!copy || copy->began.value == 0) return write(event);
  waiting_.push_back({.event = event, .copy = copy});
  copies_.push_back(&waiting_.back());
}

void Tape::recompute(const Record& record, const ReplayNote& replay) {
  if (!on()) return;
  write(Recompute{.storage = number_of(record.id), .replayed = replay.op, .needed_by = current(), .start = replay.start - began_, .duration = replay.took});
}

void Tape::stall(StallCause cause, Nanos start, Nanos took) {
  if (!on()) return;
  write(Stall{.cause = cause, .op = current(), .storage = {}, .job = kJob, .start = start - began_, .duration = took});
}

void Tape::stall(StallCause cause, CopySpan wait) {
  if (!on()) return;
  waiting_.push_back({.event = Stall{.cause = cause, .op = current(), .storage = {}, .job = kJob, .start = now(), .duration = {}}, .copy = wait});
  stalls_.push_back(&waiting_.back());
}

void Tape::end_step(std::span<const Nanos> durations) {
  if (!on()) return;
  set_times(durations);
  write_settled();
  write(StepEnd{.step = StepIndex{step_}, .job = kJob, .at = now()});
  ++step_;
  write(StepBegin{.step = StepIndex{step_}, .job = kJob, .at = now(), .signature = {}});
}

StorageId Tape::number_of(StorageId storage) {
  const Told* told = told_.find(storage.index);
  return told == nullptr ? StorageId{} : told->number;
}

// An op may have freed one of its own: who resizes a storage gives it other memory.
std::span<const StorageId> Tape::numbers_of(std::span<const StorageId> storages, std::vector<StorageId>& room) {
  room.clear();
  for (const StorageId storage : storages) {
    if (const StorageId number = number_of(storage); number.valid()) room.push_back(number);
  }
  return room;
}

// --- roles ----------------------------------------------------------------------------------------------------------

bool Tape::has_no_role(StorageId storage) {
  const Told* told = told_.find(storage.index);
  return told != nullptr && told->kind == StorageKind::unknown;
}

void Tape::set_role(StorageId storage, StorageKind kind) {
  Told* told = told_.find(storage.index);
  if (told != nullptr && std::exchange(told->kind, kind) != kind) write(StorageRole{.storage = told->number, .kind = kind});
}

void Tape::role(const Record& record, StorageKind kind) {
  if (on()) set_role(record.id, kind);
}

// What no operator made comes from outside; an operator of the forward that reads none of our storages fills in such a
// one. What an operator made and does not return, some library holds.
void Tape::guess_roles(const OpNote& note) {
  for (const StorageId read : note.inputs) {
    if (has_no_role(read)) set_role(read, StorageKind::input);
  }
  const bool brings = note.phase == Phase::forward && note.inputs.empty();
  for (const StorageId made : note.outputs) {
    if (has_no_role(made)) set_role(made, brings ? StorageKind::input : StorageKind::activation);
  }
  for (const StorageId made : newborn_) {
    if (!contains(note.outputs, made) && has_no_role(made)) set_role(made, StorageKind::workspace);
  }
  newborn_.clear();
}

}  // namespace spillway
