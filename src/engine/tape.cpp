#include "engine/tape.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace spillway {

namespace {

template <class E>
Event as_event(E event) { return Event(std::move(event)); }

Event as_event(const OpView& op) {
  const auto list = [](std::span<const StorageId> ids) { return std::vector<StorageId>(ids.begin(), ids.end()); };
  return Op{op.index,     op.name,      op.phase,      op.job,     op.step,         op.stream,        op.start,         op.duration,
            op.transient, op.workspace, op.replayable, op.why_not, list(op.inputs), list(op.outputs), list(op.mutated), list(op.aliased)};
}

bool contains(std::span<const StorageId> ids, StorageId id) { return std::ranges::find(ids, id) != ids.end(); }

}  // namespace

void Tape::open(const std::string& path, Device& device, std::span<const StreamId> copies, const WriterOptions& kept) {
  writer_ = std::make_unique<TraceWriter>(path, kept);
  device_ = &device;
  began_ = device.now();
  ops_ = step_ = 0;  // another may have been closed before
  kinds_.clear();
  newborn_.clear();
  anchors_.clear();
  for (const StreamId stream : copies) {
    const Tick tick = device.record(stream);
    device.synchronize(tick);
    anchors_.push_back({.tick = tick, .at = device.now()});
  }
  write(StepBegin{.step = StepIndex{0}, .job = kJob, .at = {}, .signature = {}});
}

void Tape::close() {
  if (!on()) return;
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

void Tape::write_settled() {
  for (; !copies_.empty(); copies_.pop_front()) {
    Waiting& first = *copies_.front();
    if (!settle(std::get<Move>(first.event), *first.copy) && copies_.size() <= kMostCopies) break;
    first.copy.reset();
  }
  for (; !waiting_.empty() && !waiting_.front().copy && !waiting_.front().timed; waiting_.pop_front()) writer_->write(waiting_.front().event);
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

// From the last tick of the stream whose time is known; too long ago to compare with: the moment it is seen done.
Nanos Tape::time_of(Tick done) {
  const auto anchor = std::ranges::find(anchors_, done.stream, [](const Anchor& one) { return one.tick.stream; });
  if (anchor == anchors_.end()) return device_->now();
  const bool near = done.value >= anchor->tick.value && done.value - anchor->tick.value < kTickWindow / 2;
  const Nanos at = near ? anchor->at + device_->elapsed(anchor->tick, done) : device_->now();
  *anchor = {.tick = done, .at = std::min(at, device_->now())};
  return anchor->at;
}

// --- events ---------------------------------------------------------------------------------------------------------

void Tape::fact(std::string key, std::string value) {
  if (on()) write(Fact{.key = std::move(key), .value = std::move(value)});
}

void Tape::budget(Bytes bytes) {
  if (on()) write(BudgetChange{.budget = bytes, .job = kJob, .at = now()});
}

void Tape::plan(std::string_view policy, Bytes budget, const Prediction& predicted) {
  if (!on()) return;
  write(PlanMade{.policy = writer_->intern(policy), .job = kJob, .step = StepIndex{step_}, .budget = budget,
                 .predicted_peak = predicted.peak, .shortfall = predicted.over, .predicted_time = predicted.time, .took = {}, .at = now()});
}

void Tape::decide(StorageId storage, Action action, std::uint32_t ops, std::string_view why) {
  if (!on()) return;
  write(Decision{.storage = storage, .action = action, .at = current(), .until = OpIndex{ops_ + ops},
                 .reason = why.empty() ? NameId{} : writer_->intern(why), .job = kJob, .planned = true});
}

void Tape::birth(const Record& record) {
  if (!on()) return;
  write(StorageBirth{.storage = record.id, .size = record.size, .kind = StorageKind::unknown, .job = kJob, .at = now()});
  if (record.maker != nullptr) newborn_.push_back(record.id);
}

// What is gone before its operator ended was that operator's own.
void Tape::death(const Record& record) {
  if (!on()) return;
  if (std::erase(newborn_, record.id) > 0) set_role(record.id, StorageKind::workspace);
  write(StorageDeath{.storage = record.id, .at = now()});
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
               .inputs = note.inputs,
               .outputs = note.outputs,
               .mutated = note.mutated,
               .aliased = note.aliased};
  if (note.timed) waiting_.push_back({.event = as_event(op), .copy = {}, .timed = true});
  else write(op);
}

void Tape::move(const Record& record, TraceTier from, TraceTier to, bool clean, std::optional<CopySpan> copy) {
  if (!on()) return;
  write_settled();
  const Move event{.storage = record.id, .from = from, .to = to, .size = record.size, .trigger = current(), .start = now(), .duration = {}, .clean = clean};
  if (!copy || copy->began.value == 0) return write(event);
  waiting_.push_back({.event = event, .copy = copy});
  copies_.push_back(&waiting_.back());
}

void Tape::recompute(const Record& record, const ReplayNote& replay) {
  if (!on()) return;
  write(Recompute{.storage = record.id, .replayed = replay.op, .needed_by = current(), .start = replay.start - began_, .duration = replay.took});
}

void Tape::stall(StallCause cause, Nanos start, Nanos took) {
  if (!on()) return;
  write(Stall{.cause = cause, .op = current(), .storage = {}, .job = kJob, .start = start - began_, .duration = took});
}

void Tape::end_step(std::span<const Nanos> durations) {
  if (!on()) return;
  set_times(durations);
  write_settled();
  write(StepEnd{.step = StepIndex{step_}, .job = kJob, .at = now()});
  ++step_;
  write(StepBegin{.step = StepIndex{step_}, .job = kJob, .at = now(), .signature = {}});
}

// --- roles ----------------------------------------------------------------------------------------------------------

StorageKind& Tape::kind_of(StorageId storage) {
  if (kinds_.size() <= storage.index) kinds_.resize(storage.index + 1, StorageKind::unknown);
  return kinds_[storage.index];
}

void Tape::set_role(StorageId storage, StorageKind kind) {
  if (std::exchange(kind_of(storage), kind) != kind) write(StorageRole{.storage = storage, .kind = kind});
}

void Tape::role(const Record& record, StorageKind kind) {
  if (on()) set_role(record.id, kind);
}

// What no operator made comes from outside; an operator of the forward that reads none of our storages fills in such a
// one. What an operator made and does not return, some library holds.
void Tape::guess_roles(const OpNote& note) {
  for (const StorageId read : note.inputs) {
    if (kind_of(read) == StorageKind::unknown) set_role(read, StorageKind::input);
  }
  const bool brings = note.phase == Phase::forward && note.inputs.empty();
  for (const StorageId made : note.outputs) {
    if (kind_of(made) == StorageKind::unknown) set_role(made, brings ? StorageKind::input : StorageKind::activation);
  }
  for (const StorageId made : newborn_) {
    if (!contains(note.outputs, made) && kind_of(made) == StorageKind::unknown) set_role(made, StorageKind::workspace);
  }
  newborn_.clear();
}

}  // namespace spillway
