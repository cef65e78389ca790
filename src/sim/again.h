// A recorded run played again from its first call to its last: does the engine decide as it did?
//
// A run inside a budget, recorded on the CPU, has the engine's options and minutes in its trace (engine/minutes.h). The same engine
// gets the same calls here over a fake device. Who leaves, how, and who comes back is its own to decide; the trace is only asked
// what no engine decides: what the program did, whether a copy was done when somebody asked, and, since that hangs on a thread in
// the background, which plan there was to go by.
//
//   same options, same minutes  =>  same sequence of (op, action, storage)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "trace/trace.h"

namespace spillway {

enum class Deed : std::uint8_t { move_out, leave_clean, drop, move_in, recompute };
[[nodiscard]] std::string_view word_of(Deed deed);

// What happened to a storage before or for an op. `tier`: where it went or came from.
struct Act {
  OpIndex op;
  Deed deed = Deed::move_out;
  TraceTier tier = TraceTier::nowhere;
  StorageId storage;
  friend bool operator==(const Act&, const Act&) = default;
};

// The evictions, returns and recomputations of a trace, in order, as far as every event is there.
[[nodiscard]] std::vector<Act> acts_of(const Trace& trace);

struct AgainOptions {
  std::optional<Bytes> budget;        // another one than the run's
  std::optional<std::string> policy;  // likewise; a reactive one
};

struct Difference {
  std::optional<Act> recorded, played;  // empty: there was none any more
};

struct AgainResult {
  std::size_t recorded = 0, played = 0, same = 0;  // acts; the last: up to the first difference
  std::size_t ops = 0, steps = 0;                  // played
  bool whole = false;                              // to the end of the run; otherwise the trace does not hold all of it
  std::optional<Difference> difference;
  std::string problem;                             // why the run could not be followed any further; empty: it could
};

// Throws InputError when the trace has no minutes, with the reason it gives.
[[nodiscard]] AgainResult play_again(const Trace& trace, const AgainOptions& options = {});

}  // namespace spillway
