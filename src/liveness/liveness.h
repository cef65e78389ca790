// One step of a trace as flat arrays: which storage lives over which ops, and who reads and writes it where.
//
// Ops are places 0..n-1 in the order they ran, storages places 0..m-1 in the order they were first seen; everything is
// indexed by these. A storage is there during the ops [birth, death). Steps repeat: what is alive at the step's end
// goes on in the next one as the storage `next`, itself for a parameter, the one born a step earlier for a gradient
// that dies early in the next step. An op that only makes views (`detach`, `view`, ...) has no accesses: it touches no
// byte.
//
//   sum over ops of accesses_at(op).size() == sum over storages of accesses_of(storage).size()
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "liveness/steps.h"
#include "trace/event.h"
#include "trace/trace.h"

namespace spillway {

// Places in the arrays below; plain numbers, because planners count with them.
using OpPlace = std::uint32_t;
using StoragePlace = std::uint32_t;
inline constexpr std::uint32_t kNoPlace = UINT32_MAX;

struct Access {
  OpPlace op = 0;
  StoragePlace storage = 0;
  std::uint32_t version = 0;  // writes to the storage in this step before the op; equal versions hold equal bytes
  bool reads = false, writes = false;
  bool makes = false;  // the storage is born by this op
  friend bool operator==(const Access&, const Access&) = default;
};

struct LiveOp {
  Nanos duration;
  Nanos again;                 // as in the trace: zero where running it again takes as long
  Bytes transient, workspace;  // as in the trace: transient includes what the op makes
  Bytes made;                  // sizes of the storages it makes
  OpIndex index;               // in the trace
  NameId name;
  Phase phase = Phase::unknown;
  bool replayable = false;
  bool view = false;       // makes nothing but views
  std::uint8_t lists = 0;  // not 0: may run in pieces, whose largest is one storage out of each of so many lists

  [[nodiscard]] Nanos time_again() const { return again > 0_ns ? again : duration; }
};

struct LiveStorage {
  Bytes size;
  OpPlace birth = 0, death = 0;  // there during the ops [birth, death); equal: never there while an op runs
  StoragePlace next = kNoPlace;  // which storage goes on with its life in the next step, where known
  StorageId id;                  // in the trace
  std::uint32_t born = 0, died = 0;  // the order of births and deaths, also within an op
  StorageKind kind = StorageKind::unknown;
  bool before = false, after = false;  // alive when the step begins, when it ends
  bool continues = false;              // it is the `next` of some storage

  // Parameters, optimizer state: the same storage step after step.
  [[nodiscard]] bool wraps() const { return before && after; }
};

// What may differ between two steps that do the same: by storage, and by op.
struct StepFigures {
  struct OpFigures {
    Bytes transient, workspace;
    Nanos duration;
  };
  std::vector<Bytes> sizes;
  std::vector<OpFigures> ops;
};

class Liveness {
 public:
  // Linear in the trace's events and accesses. The step comes from the functions in steps.h over the same trace.
  Liveness(const Trace& trace, const WholeStep& step);

  // The same step with other figures.
  void set_figures(const StepFigures& figures);

  [[nodiscard]] OpPlace op_count() const { return static_cast<OpPlace>(ops_.size()); }
  [[nodiscard]] StoragePlace storage_count() const { return static_cast<StoragePlace>(storages_.size()); }
  [[nodiscard]] std::span<const LiveOp> ops() const { return ops_; }
  [[nodiscard]] std::span<const LiveStorage> storages() const { return storages_; }

  // Once per storage and op, in the order of ops.
  [[nodiscard]] std::span<const Access> accesses_of(StoragePlace storage) const {
    return slice(by_storage_, storage_begin_, storage);
  }
  // Once per storage, in the order in which the op names them: inputs, mutated, outputs.
  [[nodiscard]] std::span<const Access> accesses_at(OpPlace op) const { return slice(by_op_, op_begin_, op); }
  // The ops that wrote the storage, in order; the first made it unless it was there before the step.
  [[nodiscard]] std::span<const OpPlace> writers_of(StoragePlace storage) const {
    return slice(writers_, writer_begin_, storage);
  }

  // When an op starts if nothing ever waits, counted from the step's start; starts()[op_count()] is the step's time.
  [[nodiscard]] std::span<const Nanos> starts() const { return starts_; }
  // The time of the ops [begin, end), with end <= 2 * op_count(): the next step is like this one.
  [[nodiscard]] Nanos time_over(OpPlace begin, OpPlace end) const;

 private:
  template <class T>
  static std::span<const T> slice(const std::vector<T>& all, const std::vector<std::uint32_t>& begin,
                                  std::uint32_t at) {
    return std::span(all).subspan(begin[at], begin[at + 1] - begin[at]);
  }
  void index_by_storage();
  void sum_times();

  std::vector<LiveOp> ops_;
  std::vector<LiveStorage> storages_;
  std::vector<Access> by_op_, by_storage_;
  std::vector<OpPlace> writers_;
  std::vector<std::uint32_t> op_begin_, storage_begin_, writer_begin_;  // one more than there are ops or storages
  std::vector<Nanos> starts_;
};

}  // namespace spillway
