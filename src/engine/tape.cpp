#include "engine/tape.h"

namespace spillway {

void Tape::open(const std::string& path, Nanos now) {
  writer_ = std::make_unique<TraceWriter>(path);
  began_ = now;
  writer_->write(StepBegin{.step = StepIndex{0}, .job = kJob, .at = {}, .signature = {}});
}

void Tape::close() {
  if (!on()) return;
  writer_->close();
  writer_.reset();
}

void Tape::fact(std::string key, std::string value) {
  if (on()) writer_->write(Fact{.key = std::move(key), .value = std::move(value)});
}

void Tape::budget(Bytes bytes, Nanos now) {
  if (on()) writer_->write(BudgetChange{.budget = bytes, .job = kJob, .at = now - began_});
}

void Tape::birth(const Record& record, Nanos now) {
  if (!on()) return;
  writer_->write(StorageBirth{.storage = record.id, .size = record.size, .kind = StorageKind::unknown, .job = kJob, .at = now - began_});
}

void Tape::death(const Record& record, Nanos now) {
  if (on()) writer_->write(StorageDeath{.storage = record.id, .at = now - began_});
}

void Tape::op(const OpNote& note) {
  if (!on()) return;
  writer_->write(OpView{.index = OpIndex{ops_++},
                        .name = writer_->intern(note.name),
                        .phase = note.phase,
                        .job = kJob,
                        .step = StepIndex{step_},
                        .stream = note.stream,
                        .start = note.start - began_,
                        .duration = note.duration,
                        .transient = note.transient,
                        .workspace = {},
                        .replayable = note.replayable,
                        .why_not = {},
                        .inputs = note.inputs,
                        .outputs = note.outputs,
                        .mutated = note.mutated,
                        .aliased = note.aliased});
}

void Tape::move(const Record& record, TraceTier from, TraceTier to, bool clean, Nanos now) {
  if (!on()) return;
  writer_->write(Move{.storage = record.id, .from = from, .to = to, .size = record.size, .trigger = latest(), .start = now - began_, .duration = {}, .clean = clean});
}

void Tape::recompute(const Record& record, Nanos start, Nanos took) {
  if (!on()) return;
  writer_->write(Recompute{.storage = record.id, .replayed = latest(), .needed_by = latest(), .start = start - began_, .duration = took});
}

void Tape::stall(StallCause cause, Nanos start, Nanos took) {
  if (!on()) return;
  writer_->write(Stall{.cause = cause, .op = latest(), .storage = {}, .job = kJob, .start = start - began_, .duration = took});
}

void Tape::end_step(Nanos now) {
  if (!on()) return;
  writer_->write(StepEnd{.step = StepIndex{step_}, .job = kJob, .at = now - began_});
  ++step_;
  writer_->write(StepBegin{.step = StepIndex{step_}, .job = kJob, .at = now - began_, .signature = {}});
}

}  // namespace spillway
