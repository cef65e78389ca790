// How much a test that can run for any length should do: `make test` wants minutes in all, `make test-long` ten times that.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace spillway::testing {

// SPILLWAY_TEST_LONG is set by `make test-long` and by nothing else.
inline bool long_run() { return std::getenv("SPILLWAY_TEST_LONG") != nullptr; }

inline std::int64_t scaled(std::int64_t count) { return long_run() ? 10 * count : count; }

}  // namespace spillway::testing
