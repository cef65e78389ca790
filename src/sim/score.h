// One step of a trace in the order in which it is played: what is born and dies where, and each op with its storages.
//
// Storages are places of the step's Liveness. What an op makes, and what is born and gone while it runs, is allocated by
// it; whatever else is born between two ops comes from outside. A step that ran under a budget has rebuilds between its
// ops: what those made and let go of again is not the program's and is left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "liveness/liveness.h"

namespace spillway {

struct Cue {
  StoragePlace storage = 0;
  bool birth = true;  // false: its death
};

struct ScoreOp {
  std::string_view name, why_not;  // of the trace
  Phase phase = Phase::unknown;
  std::uint64_t shape = 0, key = 0;  // as the engine knows ops: what it is; and how large its arguments are
  Nanos duration;
  Nanos lean;                      // as in Op
  Nanos again;                     // likewise
  Bytes workspace;                 // beyond what is born in it
  bool replayable = false;
  bool view = false;               // reads nothing: nobody need be there for it
  bool in_place = false;           // makes nothing: it changes its one written argument
  std::vector<StoragePlace> inputs, mutated, outputs;  // inputs: those it does not write; outputs: aliases of inputs, too
  std::vector<Cue> before, inside;

  [[nodiscard]] Nanos time_again() const { return again > 0_ns ? again : duration; }
};

struct Score {
  std::vector<ScoreOp> ops;
  std::vector<Cue> tail;  // after the last op
};

// The step is one of this trace, and `liveness` is its; the score's names live as long as the trace.
[[nodiscard]] Score read_score(const Trace& trace, const WholeStep& step, const Liveness& liveness);

}  // namespace spillway
