// A trace in a few numbers, and as the table people read.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/units.h"
#include "trace/event.h"
#include "trace/fields.h"
#include "trace/trace.h"

namespace spillway {

struct KindSum {
  std::uint64_t storages = 0;
  Bytes bytes;
};

struct TraceSummary {
  std::uint64_t whole_steps = 0, summarized_steps = 0, storages = 0, ops = 0;
  std::array<std::uint64_t, kWords<Phase>.size()> ops_by_phase{};
  std::array<KindSum, kWords<StorageKind>.size()> by_kind{};  // by the kind each storage had in the end
  Bytes born;                                                 // sum of the sizes of all storages
  Bytes peak_live;  // most bytes of living storages on the device, from births, deaths and moves
  Bytes peak;       // the same with the transients of ops
  Nanos op_time;    // sum of the durations of ops
  Bytes moved_out, moved_in;
  std::uint64_t recomputed = 0;
  Nanos recompute, stall;
};

[[nodiscard]] TraceSummary summarize(const Trace& trace);

// The facts and the summary as aligned lines; equal traces give equal text.
[[nodiscard]] std::string to_table(const Trace& trace);

}  // namespace spillway
