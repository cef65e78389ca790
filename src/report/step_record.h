// One step as the page draws it: columns of numbers in the order of time.
//
// Storages are numbered from 0 within the step; after them come the transients of ops, which are memory too. A point
// says that one of them came or went:
//
//   device bytes after point i == sum over points [0, i] of (+ or - its size) where it concerns the device
//
// Memory follows the trace's own law, by events: what leaves is off the books when its copy is ordered. Times are
// nanoseconds since the step began.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "report/windows.h"
#include "trace/event.h"

namespace spillway {

// Bits of a point: what it changes, and in which direction.
enum PointBit : std::uint8_t { kGone = 1, kOnDevice = 2, kAlive = 4 };

struct MemoryPoint {
  Nanos at;
  std::uint32_t who = 0;  // a storage; from storages.size() on a transient
  std::uint8_t what = 0;  // PointBits
};

enum class Copy : std::uint8_t { out, in, drop, clean_out };

struct CopyMark {
  Nanos at, took;
  std::uint32_t who = 0;
  Copy copy = Copy::out;
  bool file = false;  // to or from a file
  NameId before;      // the op that was next
};

struct OpMark {
  Nanos at, took;
  OpIndex index;
  NameId name;
  Phase phase = Phase::unknown;
};

struct RecomputeMark {
  Nanos at, took;
  std::uint32_t who = 0;
  NameId op, for_op;
};

struct StallMark {
  Nanos at, took;
  StallCause cause = StallCause::fetch;
  std::uint32_t who = UINT32_MAX;
  NameId op;
};

struct StorageMark {
  StorageId id;
  Bytes size;
  StorageKind kind = StorageKind::unknown;
  NameId made_by;
  std::uint32_t out = 0, in = 0, dropped = 0, recomputed = 0;  // how often
  Nanos waited, recompute;                                     // stalls and replays for its sake
  std::vector<Decision> decisions;                             // of the plan in force, then the reactive ones
};

struct StepRecord {
  StepWindow window;
  Nanos began, duration;
  Bytes budget;   // 0: none
  Bytes peak;     // of device bytes, transients included
  NameId policy;  // of the plan in force; not valid when there was none
  PlanMade plan;
  std::vector<StorageMark> storages;
  std::vector<Bytes> transients;
  std::vector<MemoryPoint> points;
  std::vector<OpMark> ops;
  std::vector<RecomputeMark> recomputes;
  std::vector<CopyMark> copies;
  std::vector<StallMark> stalls;
};

// A run: one line for every step, and a record for the chosen ones.
struct RunRecord {
  struct Line {
    StepSummary sums;
    std::int32_t record = -1;  // its place in `records`; -1: only this line is known
    bool whole = true;
  };
  std::vector<Line> lines;
  std::vector<StepRecord> records;
};

[[nodiscard]] RunRecord record_run(const Trace& trace, std::uint64_t most_cost);

}  // namespace spillway
