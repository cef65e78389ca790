// The engine's record of itself: each call is one event of the trace, or nothing when no trace was asked for.
//
// How long a copy took is known when it is done, and how long an op that the device measures at the step's end. Nobody waits
// for that: the event stays behind, and all later ones behind it, until the time is known; the trace stays in the order of the
// host. Storages have numbers of the trace's own, given at their birth, since it may begin when others have come and gone; ops
// name only those that live. Belongs to the engine's lock.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/record.h"
#include "plan/plan.h"
#include "trace/event.h"
#include "trace/flat_table.h"
#include "trace/writer.h"

namespace spillway {

// An operator as the adapter saw it.
struct OpNote {
  std::string_view name;
  Phase phase = Phase::unknown;
  StreamId stream;
  Nanos start, duration;
  Bytes transient;
  bool timed = false;        // the device measures it: its duration is told at the step's end
  Nanos lean, again;         // of a lean rebuild of its first result; of making all of them again: as in Op
  bool replayable = true;    // operators of its kind may be
  std::string_view why_not;  // this call may not be, because; empty: it may
  std::span<const StorageId> inputs, outputs, mutated, aliased;
};

// The ticks around one copy, or around the time in which a stream stands still.
struct CopySpan {
  Tick began, done;
};

[[nodiscard]] inline TraceTier trace_tier(const LowerCopy& copy) { return copy.tier == Tier::host ? TraceTier::host : TraceTier::file; }

// One run of a recipe: which op ran again, and when.
struct ReplayNote {
  OpIndex op;
  Nanos start, took;
  bool lean = false;
};

class Tape {
 public:
  // `copies`: the streams that copy; `living`: who is born already, the oldest first. Throws InputError when the file cannot be
  // written.
  void open(const std::string& path, Device& device, std::span<const StreamId> copies, const WriterOptions& kept = {},
            std::span<const Record* const> living = {});
  void open(std::unique_ptr<TraceWriter> writer, Device& device, std::span<const StreamId> copies, std::span<const Record* const> living);
  // Waits for the copies that are still under way.
  void close();
  // Without a word to the file: in a forked child it is the parent's.
  void forget();
  [[nodiscard]] bool on() const { return writer_ != nullptr; }
  // The op told last; not valid before the first.
  [[nodiscard]] OpIndex latest_op() const { return ops_ == 0 ? OpIndex{} : OpIndex{ops_ - 1}; }

  void fact(std::string key, std::string value);
  // Of the engine's minutes.
  void call(CallKind kind, std::span<const std::uint64_t> words);
  void budget(Bytes bytes);
  // From the next step on this plan is followed.
  void plan(std::string_view policy, Bytes budget, const Prediction& predicted, Nanos took);
  // By the plan the storage leaves after the op told last, for the next `ops` ops.
  void decide(StorageId storage, Action action, std::uint32_t ops, std::string_view why);
  void birth(const Record& record);
  void death(const Record& record);
  // What the storage is for, told by somebody who knows.
  void role(const Record& record, StorageKind kind);
  void op(const OpNote& note);
  // Without a copy: a drop, or a clean leave.
  void move(const Record& record, TraceTier from, TraceTier to, bool clean, std::optional<CopySpan> copy);
  void recompute(const Record& record, const ReplayNote& replay);
  void stall(StallCause cause, Nanos start, Nanos took);
  // A wait that was enqueued: whether it is one, and how long, is told when it is over.
  void stall(StallCause cause, CopySpan wait);
  // `durations`: of the step's ops that the device measured.
  void end_step(std::span<const Nanos> durations = {});

 private:
  static constexpr JobId kJob{0};
  // Ticks keep their times for the last kTickWindow of a stream, and a copy has two.
  static constexpr std::size_t kMostCopies = kTickWindow / 4;

  struct Waiting {
    Event event;
    std::optional<CopySpan> copy;  // of a move or a stall that is under way
    bool timed = false;            // an op whose time is not known yet
  };
  // A storage as the trace knows it.
  struct Told {
    StorageId number;
    StorageKind kind = StorageKind::unknown;
  };
  // A tick whose time on the host's clock is known.
  struct Anchor {
    Tick tick;
    Nanos at;
  };

  // An op is written when it has run: until then, all that happens is for its sake.
  [[nodiscard]] OpIndex current() const { return OpIndex{ops_}; }
  [[nodiscard]] Nanos now() const { return device_->now() - began_; }
  template <class E>
  void write(E event);
  void write_settled();
  void set_times(std::span<const Nanos> durations);
  [[nodiscard]] bool settle(Move& move, const CopySpan& copy);
  [[nodiscard]] bool settle(Stall& stall, const CopySpan& wait);
  template <class E>
  void settle_first(std::deque<Waiting*>& pending);
  [[nodiscard]] Nanos time_of(Tick done);
  void announce(const Record& record, TraceTier tier);
  // In the trace; not valid for who has died.
  [[nodiscard]] StorageId number_of(StorageId storage);
  // Good until the next call with the same room.
  [[nodiscard]] std::span<const StorageId> numbers_of(std::span<const StorageId> storages, std::vector<StorageId>& room);
  void guess_roles(const OpNote& note);
  void set_role(StorageId storage, StorageKind kind);
  [[nodiscard]] bool has_no_role(StorageId storage);

  std::unique_ptr<TraceWriter> writer_;
  Device* device_ = nullptr;
  Nanos began_;
  std::uint32_t ops_ = 0, step_ = 0;
  std::deque<Waiting> waiting_;
  std::deque<Waiting*> copies_, stalls_;  // among those: moves and stalls that are under way
  std::vector<Anchor> anchors_;
  FlatTable<Told> told_;            // who lives, by the engine's number
  std::uint32_t storages_ = 0;      // told so far
  std::array<std::vector<StorageId>, 4> lists_;  // of the op that is told: an op costs no allocation
  bool has_calls_ = false;
  std::vector<StorageId> newborn_;  // inside an operator that is not told yet
};

}  // namespace spillway
