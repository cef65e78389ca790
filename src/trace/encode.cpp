#include "trace/encode.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace spillway {

void fail_input(std::string_view file, std::uint64_t offset, const std::string& what) {
  throw InputError(fmt::format("{}: byte {}: {}", file, offset, what));
}

std::uint64_t Decoder::take_long(std::string_view field) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ == bytes_.size()) fail(fmt::format("expected more of {}, found the end of the block", field));
    const std::uint8_t byte = bytes_[at_++];
    if (shift == 63 && byte > 1) break;
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  fail(fmt::format("expected {} as a number of at most 64 bits, found a longer one", field));
}

std::uint8_t Decoder::take_byte(std::string_view field) {
  if (at_ == bytes_.size()) fail(fmt::format("expected {}, found the end of the block", field));
  return bytes_[at_++];
}

std::size_t Decoder::take_count(std::string_view field) {
  const std::uint64_t count = take(field);
  const std::size_t left = bytes_.size() - at_;
  if (count > left)
    fail(fmt::format("expected {} of at most {} bytes, the rest of the block, found {}", field, left, count));
  return static_cast<std::size_t>(count);
}

void Decoder::operator()(std::string_view field, std::vector<StorageId>& list) {
  list.resize(take_count(field));
  for (StorageId& id : list) id = take_id<StorageKindTag>(field);
}

void Decoder::operator()(std::string_view field, std::vector<std::uint64_t>& words) {
  words.resize(take_count(field));
  for (std::uint64_t& word : words) word = take(field);
}

void Decoder::operator()(std::string_view field, std::string& text) {
  const std::size_t length = take_count(field);
  text.resize(length);
  for (char& c : text) c = static_cast<char>(bytes_[at_++]);
  if (!is_utf8(text)) fail(fmt::format("expected {} in UTF-8, found other bytes", field));
}

void Decoder::fail_range(std::string_view field, std::uint64_t most, std::uint64_t found) const {
  fail(fmt::format("expected {} in 0..{}, found {}", field, most, found));
}

namespace {

// How many bytes the character at the front takes; 0 where it is malformed.
std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0}; };
  const auto follows = [&](std::size_t i, std::uint8_t low = 0x80, std::uint8_t high = 0xbf) {
    return at(i) >= low && at(i) <= high;
  };
  const std::uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const std::uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;
    const std::uint8_t high = lead == 0xed ? 0x9f : 0xbf;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const std::uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
    const std::uint8_t high = lead == 0xf4 ? 0x8f : 0xbf;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string clean_text(std::string_view text, std::size_t most) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (clean.size() + std::max<std::size_t>(length, 1) > most) break;
    clean += length == 0 ? std::string_view("?") : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return clean;
}

}  // namespace spillway
