// A trace for the Perfetto viewer (ui.perfetto.dev) and chrome://tracing: their JSON trace event format.
//
// A process per job with tracks for compute, recompute, both copy directions and stalls, a counter for device memory by
// kind and one for the budget. Times are microseconds, as the format demands.
#pragma once

#include <iosfwd>

#include "trace/trace.h"

namespace spillway {

void write_perfetto(const Trace& trace, std::ostream& out);

}  // namespace spillway
