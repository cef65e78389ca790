// How long the random tests run: as told, ten times as long in `make test-long`, a tenth of it under a sanitizer.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace spillway::shadow {

inline std::int64_t test_length(std::int64_t usual) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  usual /= 10;
#endif
  return std::getenv("SPILLWAY_TEST_LONG") != nullptr ? usual * 10 : usual;
}

}  // namespace spillway::shadow
