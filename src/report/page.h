// A trace as one page that opens in any browser: nothing is fetched, everything is inside.
//
// Equal traces give equal bytes. About 5 to 12 bytes of page an event; of a run with more events than fit, the first
// and the last steps are drawn and the others listed.
#pragma once

#include <string>

#include "trace/trace.h"

namespace spillway {

struct PageOptions {
  std::string title;                    // the file's name, say
  std::uint64_t most_cost = 1'500'000;  // events drawn, so that a page stays below 30 MB (tests/python/test_report.py)
};

// Throws InputError when there is nothing to draw: no step was recorded, not even in part.
[[nodiscard]] std::string to_page(const Trace& trace, const PageOptions& options);

}  // namespace spillway
