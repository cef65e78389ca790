#include "base/text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"

namespace spillway {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKibi = 1024;
constexpr double kKilo = 1000;

// Lower case: units are read without regard to case, as people write 8gb and 8GB.
constexpr std::array kByteUnits = {
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"k", kKibi},
    Unit{"kib", kKibi},
    Unit{"kb", kKilo},
    Unit{"m", kKibi * kKibi},
    Unit{"mib", kKibi * kKibi},
    Unit{"mb", kKilo * kKilo},
    Unit{"g", kKibi * kKibi * kKibi},
    Unit{"gib", kKibi * kKibi * kKibi},
    Unit{"gb", kKilo * kKilo * kKilo},
    Unit{"t", kKibi * kKibi * kKibi * kKibi},
    Unit{"tib", kKibi * kKibi * kKibi * kKibi},
    Unit{"tb", kKilo * kKilo * kKilo * kKilo},
};

[[noreturn]] void refuse(std::string_view text, std::string_view why, const Whole& whole) {
  throw InputError("\"" + std::string(text) + "\" is not an amount of memory: " + std::string(why) +
                   "; accepted are bytes (1048576), 512MiB, 8GiB, 8G, 8GB" + (whole.size > 0_B ? ", 60% of " + std::string(whole.name) : ""));
}

constexpr bool is_space(char c) { return c == ' ' || c == '\t'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::optional<double> find_factor(std::string_view unit, Bytes whole) {
  if (unit == "%" && whole > 0_B) return static_cast<double>(whole.count) / 100;
  for (const Unit& known : kByteUnits) {
    if (known.name == unit) return known.factor;
  }
  return std::nullopt;
}

// Whole numbers of bytes keep all their digits; a double would round beyond 2^53.
std::optional<Bytes> find_plain_count(std::string_view digits) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return Bytes{count};
}

std::string with_unit(double value, std::string_view unit) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed, decimals).ptr;
  return std::string(digits.data(), end) + " " + std::string(unit);
}

// The largest unit of which there is one, counting what the unit below would round up to one: 1.00 MiB, not 1024 KiB.
template <std::size_t Size>
std::string in_largest(std::int64_t count, const std::array<Unit, Size>& units) {
  const double size = std::abs(static_cast<double>(count));
  std::size_t chosen = 0;
  while (chosen + 1 < Size && std::round(size / units[chosen].factor) * units[chosen].factor >= units[chosen + 1].factor) ++chosen;
  if (chosen == 0) return std::to_string(count) + " " + std::string(units[0].name);
  return (count < 0 ? "-" : "") + with_unit(size / units[chosen].factor, units[chosen].name);
}

constexpr std::array kByteScale = {
    Unit{"B", 1},
    Unit{"KiB", kKibi},
    Unit{"MiB", kKibi * kKibi},
    Unit{"GiB", kKibi * kKibi * kKibi},
    Unit{"TiB", kKibi * kKibi * kKibi * kKibi},
};

constexpr std::array kTimeScale = {Unit{"ns", 1}, Unit{"us", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}};

}  // namespace

Bytes parse_bytes(std::string_view text, const Whole& whole) {
  const std::string_view trimmed = trim(text);
  if (trimmed.empty()) refuse(text, "it is empty", whole);
  if (const auto count = find_plain_count(trimmed); count && *count > 0_B) return *count;

  double number = 0;
  const auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number, std::chars_format::fixed);
  if (error == std::errc::result_out_of_range) refuse(text, "it is too large", whole);
  if (error != std::errc{} || !std::isfinite(number)) refuse(text, "it does not begin with a number", whole);
  const std::string unit = lower(trim(trimmed.substr(static_cast<std::size_t>(end - trimmed.data()))));
  const std::optional<double> factor = find_factor(unit, whole.size);
  if (!factor && unit == "%") refuse(text, "there is nothing here to take a percentage of", whole);
  if (!factor) refuse(text, "the unit \"" + unit + "\" is unknown", whole);

  const double bytes = std::floor(number * *factor);
  if (bytes >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) refuse(text, "it is too large", whole);
  if (bytes < 1) refuse(text, "it must be at least one byte", whole);
  return {static_cast<std::int64_t>(bytes)};
}

std::string to_text(Bytes bytes) { return in_largest(bytes.count, kByteScale); }
std::string to_text(Nanos time) { return in_largest(time.count, kTimeScale); }

}  // namespace spillway
