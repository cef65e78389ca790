// The engine's record of itself: each call is one event of the trace, or nothing when no trace was asked for.
//
// Belongs to the engine's lock. Copies are told when they are enqueued; how long they took the device knows later.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/record.h"
#include "trace/event.h"
#include "trace/writer.h"

namespace spillway {

// An operator as the adapter saw it.
struct OpNote {
  std::string_view name;
  Phase phase = Phase::unknown;
  StreamId stream;
  Nanos start, duration;
  Bytes transient;
  bool replayable = false;
  std::span<const StorageId> inputs, outputs, mutated, aliased;
};

class Tape {
 public:
  // Throws InputError when the file cannot be written.
  void open(const std::string& path, Nanos now);
  void close();
  [[nodiscard]] bool on() const { return writer_ != nullptr; }

  void fact(std::string key, std::string value);
  void budget(Bytes bytes, Nanos now);
  void birth(const Record& record, Nanos now);
  void death(const Record& record, Nanos now);
  void op(const OpNote& note);
  void move(const Record& record, TraceTier from, TraceTier to, bool clean, Nanos now);
  void recompute(const Record& record, Nanos start, Nanos took);
  void stall(StallCause cause, Nanos start, Nanos took);
  void end_step(Nanos now);

 private:
  static constexpr JobId kJob{0};

  [[nodiscard]] OpIndex latest() const { return OpIndex{ops_ == 0 ? 0 : ops_ - 1}; }

  std::unique_ptr<TraceWriter> writer_;
  Nanos began_;
  std::uint32_t ops_ = 0, step_ = 0;
};

}  // namespace spillway
