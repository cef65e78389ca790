// The lines of a script as numbers, as the minutes of a run keep them.
//
//   parse_lines(to_words(lines)) == lines, places told apart from those that only planners ask for
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/script.h"

namespace spillway {

[[nodiscard]] std::vector<std::uint64_t> to_words(const Lines& lines);
// Throws InputError when these are not the lines of a script.
[[nodiscard]] Lines parse_lines(std::span<const std::uint64_t> words);

}  // namespace spillway
