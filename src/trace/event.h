// The facts of a run, as plain values: what the adapter records, planners read, the simulator emits, the report draws.
//
// A trace is a sequence of events in the program order of the host. Times are nanoseconds since the trace began. Ids
// are dense and never used twice: storages are numbered by birth, ops by execution over all jobs of the run, names by
// first use; a Name comes before the first event that uses its id. A storage made by an op is born right before that Op
// event; one that was gone when an op began died before that Op event. All text is UTF-8.
//
//   device bytes at any event == sum of the sizes of the storages that live and whose tier is `device`
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/range.h"
#include "base/units.h"

namespace spillway {

enum class Phase : std::uint8_t { unknown, forward, backward, optimizer };
// `gradient` is that of a parameter, `input` what the script brings into the step, `workspace` memory that libraries
// hold and no op names; whatever else an op makes is an `activation`.
enum class StorageKind : std::uint8_t { unknown, parameter, gradient, activation, optimizer_state, input, workspace };
// Where the bytes of a storage are; `nowhere`: dropped, to be recomputed.
enum class TraceTier : std::uint8_t { device, host, file, nowhere };
enum class StallCause : std::uint8_t { fetch, room, host_room, file };
inline constexpr int kStallCauseCount = 4;
enum class Action : std::uint8_t { keep, move_out, prefetch, drop, recompute };

// Something worth knowing about the whole run: ("torch", "2.11.0"), ("device", "NVIDIA H200"), ("model", ...).
struct Fact {
  std::string key, value;
  friend bool operator==(const Fact&, const Fact&) = default;
};

struct Name {
  NameId id;
  std::string text;
  friend bool operator==(const Name&, const Name&) = default;
};

// `signature`: the shapes of the step's inputs in words, where known; steps with equal signatures do equal work.
struct StepBegin {
  StepIndex step;
  JobId job;
  Nanos at;
  NameId signature;
  friend bool operator==(const StepBegin&, const StepBegin&) = default;
};

struct StepEnd {
  StepIndex step;
  JobId job;
  Nanos at;
  friend bool operator==(const StepEnd&, const StepEnd&) = default;
};

struct StorageBirth {
  StorageId storage;
  Bytes size;
  StorageKind kind = StorageKind::unknown;
  JobId job;
  Nanos at;
  TraceTier tier = TraceTier::device;  // elsewhere only where a trace begins or restarts in mid-life
  friend bool operator==(const StorageBirth&, const StorageBirth&) = default;
};

struct StorageDeath {
  StorageId storage;
  Nanos at;
  friend bool operator==(const StorageDeath&, const StorageDeath&) = default;
};

// The kind became known later: a gradient at its accumulation, optimizer state at the first step.
struct StorageRole {
  StorageId storage;
  StorageKind kind = StorageKind::unknown;
  friend bool operator==(const StorageRole&, const StorageRole&) = default;
};

// One operator that ran below autograd. `outputs` are storages born or returned, `mutated` written in place, `aliased`
// inputs that an output is a view of. `transient` is the peak above the bytes before the op, outputs included;
// `workspace` the part of it that is neither input nor output. `why_not` is valid only when a replay would be illegal:
// the reason in words. `lean` is the time in which its first result is made again in one pass, from what it read and its
// other results; for one that changes a storage in place, what it adds to that; zero where only running it again will do. `again`
// is the time in which all of its results are made again, where that is another than its duration; zero where it is not.
template <class StorageList>
struct BasicOp {
  OpIndex index;
  NameId name;
  Phase phase = Phase::unknown;
  JobId job;
  StepIndex step;
  StreamId stream;
  Nanos start, duration;
  Bytes transient, workspace;
  bool replayable = false;
  NameId why_not;
  StorageList inputs, outputs, mutated, aliased;
  Nanos lean = {}, again = {};
};

using Op = BasicOp<std::vector<StorageId>>;
using OpView = BasicOp<std::span<const StorageId>>;  // an op as the writer takes it: nothing owned, nothing allocated

inline bool operator==(const Op& a, const Op& b) {
  return a.index == b.index && a.name == b.name && a.phase == b.phase && a.job == b.job && a.step == b.step &&
         a.stream == b.stream && a.start == b.start && a.duration == b.duration && a.transient == b.transient &&
         a.workspace == b.workspace && a.replayable == b.replayable && a.why_not == b.why_not && a.inputs == b.inputs &&
         a.outputs == b.outputs && a.mutated == b.mutated && a.aliased == b.aliased && a.lean == b.lean && a.again == b.again;
}

[[nodiscard]] inline OpView op_view(const Op& op) {
  return {op.index,     op.name,       op.phase,   op.job,    op.step,    op.stream,  op.start,   op.duration, op.transient,
          op.workspace, op.replayable, op.why_not, op.inputs, op.outputs, op.mutated, op.aliased, op.lean,     op.again};
}

// The pool granted a range; `granted` is the number of the grant class, `waits` how many waits were owed for it.
// `storage` is not valid for memory that no storage owns.
struct Allocation {
  StorageId storage;
  OpIndex op;
  Range range;
  StreamId stream;
  std::uint8_t granted = 0;
  std::uint16_t waits = 0;
  Nanos at;
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

struct Release {
  Range range;
  StreamId stream;
  Nanos at;
  friend bool operator==(const Release&, const Release&) = default;
};

// The pool could not serve a request: something had to leave first.
struct Refusal {
  Bytes size;
  OpIndex op;
  StreamId stream;
  Nanos at;
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// From now on the process holds `total` bytes of the tier, live or not.
struct Reserved {
  TraceTier tier = TraceTier::device;
  Bytes total;
  Nanos at;
  friend bool operator==(const Reserved&, const Reserved&) = default;
};

// A copy between tiers; `clean`: the other side still had the bytes, none were copied. A drop is a move to `nowhere`.
// `trigger` is the op before which it was started.
struct Move {
  StorageId storage;
  TraceTier from = TraceTier::device, to = TraceTier::host;
  Bytes size;
  OpIndex trigger;
  Nanos start, duration;
  bool clean = false;
  friend bool operator==(const Move&, const Move&) = default;
};

// `storage` is back on the device because op `replayed` ran once more, for op `needed_by`.
struct Recompute {
  StorageId storage;
  OpIndex replayed, needed_by;
  Nanos start, duration;
  friend bool operator==(const Recompute&, const Recompute&) = default;
};

struct Stall {
  StallCause cause = StallCause::fetch;
  OpIndex op;
  StorageId storage;
  JobId job;
  Nanos start, duration;
  friend bool operator==(const Stall&, const Stall&) = default;
};

// An invalid job means all of them together.
struct BudgetChange {
  Bytes budget;
  JobId job;
  Nanos at;
  friend bool operator==(const BudgetChange&, const BudgetChange&) = default;
};

// The decisions of a plan follow it, until the next plan of the same job.
struct PlanMade {
  NameId policy;
  JobId job;
  StepIndex step;
  Bytes budget, predicted_peak, shortfall;
  Nanos predicted_time, took, at;
  friend bool operator==(const PlanMade&, const PlanMade&) = default;
};

// What shall happen to a storage over the ops [at, until), and why: then it is over. Without `until` it holds as long as the
// plan. `planned` is false for the reactive ones, which are taken as memory runs short and belong to no plan.
struct Decision {
  StorageId storage;
  Action action = Action::keep;
  OpIndex at, until;
  NameId reason;
  JobId job;
  bool planned = true;
  friend bool operator==(const Decision&, const Decision&) = default;
};

[[nodiscard]] inline bool is_over(const Decision& decision, OpIndex next) {
  return decision.until.valid() && next.valid() && decision.until.index <= next.index;
}

// Stands for a step whose events were not kept. `peak` is the peak of device bytes, transients of ops included.
struct StepSummary {
  StepIndex step;
  JobId job;
  std::uint32_t ops = 0, recomputed = 0;
  Bytes peak, moved_out, moved_in;
  Nanos at, duration, recompute;
  std::array<Nanos, kStallCauseCount> stall{};  // by cause
  friend bool operator==(const StepSummary&, const StepSummary&) = default;
};

// Events before this were not kept. Whoever follows the state of the run starts over: what holds now (living storages
// and ranges, open steps, budgets, plans) is announced again right after.
struct Restart {
  Nanos at;
  friend bool operator==(const Restart&, const Restart&) = default;
};

// What was asked of the engine that wrote the trace, and what it was answered: with these the run can be played again
// (sim/again.h). Only where nothing else of the trace tells it, in the order in which it was asked; `words` are the numbers that go
// with it, as engine/minutes.h writes them. Those from `rebuild` to `end` are not asked of the engine: they say what it met.
enum class CallKind : std::uint8_t {
  allocate, free, died, acquire, release, pin, unpin, adopt, set_apart, hold_for_life, lend, end_loan, outside_write,
  begin_region, keep, end_region, loosen, set_recipe, append_recipe, clear_recipes, finish_rebuild, note_replay, borrow_sides,
  return_sides, keep_temporary, end_step, set_budget, try_set_budget, set_policy, trust_nothing, trim, evict_all, try_drop,
  empty_out, bring_all_home,
  rebuild,  // it asked for a storage to be rebuilt; all until `rebuilt` is asked for that
  rebuilt,
  answer,   // whether some work of the device was done
  refused,  // a storage's owner would not let it go
  failed,   // the call before could not be served
  lost,     // from here on not everything is told
  end,      // the trace was closed here
  // Since version 4, of runs that go by plans. What the planning side came to is told as if it had been asked for.
  before, after, lose_name, reset_stats,
  script,   // a part of what the next of the following goes by
  follow, join, move_house, lead, reckon, settle,
  begin_step,
};

template <class Words>
struct BasicCall {
  CallKind kind = CallKind::lost;
  Words words;
};

using Call = BasicCall<std::vector<std::uint64_t>>;
using CallView = BasicCall<std::span<const std::uint64_t>>;  // as the writer takes it: nothing owned

inline bool operator==(const Call& a, const Call& b) { return a.kind == b.kind && a.words == b.words; }

using Event =
    std::variant<Fact, Name, StepBegin, StepEnd, StorageBirth, StorageDeath, StorageRole, Op, Allocation, Release,
                 Refusal, Reserved, Move, Recompute, Stall, BudgetChange, PlanMade, Decision, StepSummary, Restart,
                 Call>;

}  // namespace spillway
