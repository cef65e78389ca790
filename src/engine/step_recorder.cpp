#include "engine/step_recorder.h"

#include <algorithm>
#include <utility>

namespace spillway {

namespace {

constexpr JobId kJob{0};

std::vector<StorageId> list(std::span<const StorageId> ids) { return {ids.begin(), ids.end()}; }

}  // namespace

void set_times(RecordedSteps& steps, const std::vector<Nanos>& durations) {
  if (durations.empty() || std::ssize(durations) != std::ranges::count(steps.timed, true)) return;
  auto next = durations.begin();
  auto timed = steps.timed.begin();
  for (Event& event : steps.trace.events) {
    auto* op = std::get_if<Op>(&event);
    if (op != nullptr && op->step == StepRecorder::kStep) op->duration = *timed++ ? *next++ : 0_ns;
  }
}

Nanos time_of(const RecordedSteps& steps) {
  Nanos sum;
  for (const Event& event : steps.trace.events) {
    const auto* op = std::get_if<Op>(&event);
    if (op != nullptr && op->step == StepRecorder::kStep) sum += op->duration;
  }
  return sum;
}

void StepRecorder::begin() {
  *this = {};
  on_ = true;
  steps_.trace.events.emplace_back(StepBegin{.step = StepIndex{0}, .job = kJob, .at = {}, .signature = {}});
}

void StepRecorder::begin_sample() {
  *this = {};
  on_ = true;
  steps_.sample = true;
  step_ = kStep.index;
}

void StepRecorder::open_sample() {
  steps_.trace.events.emplace_back(StepBegin{.step = kStep, .job = kJob, .at = {}, .signature = {}});
}

void StepRecorder::birth(const Record& record, bool stays) {
  if (!on_) return;
  steps_.trace.events.emplace_back(StorageBirth{.storage = record.id, .size = record.size,
                                                .kind = stays ? StorageKind::workspace : StorageKind::unknown, .job = kJob, .at = {}});
}

void StepRecorder::death(const Record& record) {
  if (on_) steps_.trace.events.emplace_back(StorageDeath{.storage = record.id, .at = {}});
}

NameId StepRecorder::intern(std::string_view text) {
  const auto [found, is_new] = names_.try_emplace(std::string(text), NameId{static_cast<std::uint32_t>(steps_.trace.names.size())});
  if (is_new) steps_.trace.names.emplace_back(text);
  return found->second;
}

void StepRecorder::op(const OpNote& note, OpKey key) {
  if (!on_) return;
  if (steps_.trace.events.size() >= kMostEvents) return abandon();
  if (on_planned_step()) {
    steps_.keys.push_back(key.sized);
    steps_.shapes.push_back(key.shape);
    steps_.lean.push_back(note.lean);
    steps_.timed.push_back(note.timed);
  }
  steps_.trace.events.emplace_back(Op{.index = OpIndex{ops_++},
                                      .name = intern(note.name),
                                      .phase = note.phase,
                                      .job = kJob,
                                      .step = StepIndex{step_},
                                      .stream = note.stream,
                                      .start = {},
                                      .duration = note.duration,
                                      .transient = note.transient,
                                      .workspace = {},
                                      .replayable = note.replayable,
                                      .why_not = {},
                                      .inputs = list(note.inputs),
                                      .outputs = list(note.outputs),
                                      .mutated = list(note.mutated),
                                      .aliased = list(note.aliased),
                                      .again = note.again});
}

bool StepRecorder::end_step() {
  if (!on_) return false;
  steps_.trace.events.emplace_back(StepEnd{.step = StepIndex{step_}, .job = kJob, .at = {}});
  if (step_ == kStep.index) return true;
  ++step_;
  steps_.trace.events.emplace_back(StepBegin{.step = StepIndex{step_}, .job = kJob, .at = {}, .signature = {}});
  return false;
}

RecordedSteps StepRecorder::take() {
  RecordedSteps steps = std::move(steps_);
  abandon();
  return steps;
}

}  // namespace spillway
