// The text of a file, unpacked where it is gzipped.
#pragma once

#include <string>

namespace spillway {

// Throws InputError naming the file when it cannot be read, is damaged, or unpacks to more than a gibibyte.
[[nodiscard]] std::string read_maybe_gzip(const std::string& path);

}  // namespace spillway
