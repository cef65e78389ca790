// The facts of a run, as plain values: what the adapter records, planners read, the simulator emits, the report draws.
//
// A trace is a sequence of events in the order they happened in program order of the host. Times are nanoseconds since
// the trace began. Storages, ops and names are dense ids; a Name event comes before the first use of its id.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/range.h"
#include "base/units.h"

namespace spillway {

enum class Phase : std::uint8_t { unknown, forward, backward, optimizer };
enum class StorageKind : std::uint8_t { unknown, parameter, gradient, activation, optimizer_state, input, workspace };
enum class TraceTier : std::uint8_t { device, host, file };
enum class StallCause : std::uint8_t { fetch, room, host_room, file };
enum class Action : std::uint8_t { keep, move_out, prefetch, drop, recompute };

// Something worth knowing about the whole run: ("torch", "2.11.0"), ("device", "NVIDIA H200"), ("model", ...).
struct Fact { std::string key, value; };
struct Name { NameId id; std::string text; };
struct StepBegin { StepIndex step; JobId job; Nanos at; };
struct StepEnd { StepIndex step; JobId job; Nanos at; };

struct StorageBirth { StorageId storage; Bytes size; StorageKind kind; JobId job; Nanos at; };
struct StorageDeath { StorageId storage; Nanos at; };
// The kind became known later: a gradient at its accumulation, optimizer state at the first step.
struct StorageRole { StorageId storage; StorageKind kind; };

// One operator that ran below autograd. `outputs` are storages born or returned, `mutated` written in place,
// `aliased` inputs that an output is a view of. `transient` is the peak above the bytes before the op, outputs included;
// `workspace` the part of it that is neither input nor output.
struct Op {
  OpIndex index;
  NameId name;
  Phase phase = Phase::unknown;
  JobId job;
  StepIndex step;
  StreamId stream;
  Nanos start, duration;
  Bytes transient, workspace;
  bool replayable = false;
  NameId why_not;  // valid only when not replayable: the reason in words
  std::vector<StorageId> inputs, outputs, mutated, aliased;
};

// What the pool did: `granted` is the number of the grant class.
struct Allocation { StorageId storage; OpIndex op; Range range; StreamId stream; std::uint8_t granted; std::uint16_t waits; Nanos at; };
struct Release { Range range; StreamId stream; Nanos at; };

struct Move { StorageId storage; TraceTier from, to; Bytes size; OpIndex trigger; Nanos start, duration; bool clean = false; };
struct Recompute { StorageId storage; OpIndex replayed, needed_by; Nanos start, duration; };
struct Stall { StallCause cause; OpIndex op; StorageId storage; Nanos start, duration; };

struct BudgetChange { Bytes budget; Nanos at; };
struct PlanMade { NameId policy; StepIndex step; Bytes budget, predicted_peak, shortfall; Nanos predicted_time, took; };
struct Decision { StorageId storage; Action action; OpIndex at, until; NameId reason; };

// Stands for a step whose events were not kept.
struct StepSummary {
  StepIndex step;
  JobId job;
  std::uint32_t ops = 0;
  Bytes peak, moved_out, moved_in;
  Nanos duration, recompute, stall;
};

using Event = std::variant<Fact, Name, StepBegin, StepEnd, StorageBirth, StorageDeath, StorageRole, Op, Allocation, Release, Move,
                           Recompute, Stall, BudgetChange, PlanMade, Decision, StepSummary>;

}  // namespace spillway
