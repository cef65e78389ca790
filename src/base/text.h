// Bytes and times as people write them: "8GiB", "60%", "1.5 GB" in, "7.92 GiB" and "12.3 ms" out.
#pragma once

#include <string>
#include <string_view>

#include "base/units.h"

namespace spillway {

// What a percentage is a percentage of, and what people call that.
struct Whole {
  Bytes size;
  std::string_view name;
};

// Accepts bytes ("1048576"), binary units ("8GiB", "8G", "512MiB", "64k"), decimal units ("8GB", "500MB") and, where
// `whole` is something, a percentage of it ("60%"). Fractions are fine: "1.5GiB". Throws InputError naming the text and
// what is accepted; zero, negative and overflowing amounts are refused too.
[[nodiscard]] Bytes parse_bytes(std::string_view text, const Whole& whole = {});

[[nodiscard]] std::string to_text(Bytes bytes);
[[nodiscard]] std::string to_text(Nanos time);

}  // namespace spillway
