#include "base/error.h"

#include <string_view>

namespace spillway {

void fail_invariant(const char* file, int line, const char* condition, const char* meaning) {
  const std::string_view path = file;
  const auto room = path.find("src/");
  throw InvariantError(std::string(room == std::string_view::npos ? path : path.substr(room)) + ":" +
                       std::to_string(line) + ": " + meaning + " (" + condition + " does not hold)");
}

}  // namespace spillway
