#include "trace/block.h"

#include <fmt/format.h>

namespace spillway {
namespace {

constexpr std::string_view kFileMagic = "SPILLWAY";
constexpr std::string_view kBlockMagic = "SPTB";

template <class T>
void put_number(std::span<std::uint8_t> at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

template <class T>
T take_number(std::span<const std::uint8_t> at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::uint64_t{at[i]} << (8 * i);
  return static_cast<T>(value);
}

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An odd constant with well-spread bits (the golden ratio of 2^64).
constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;

std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * kSpread;
  return state ^ (state >> 29);
}

}  // namespace

std::uint64_t checksum(std::span<const std::uint8_t> bytes) {
  std::uint64_t state = mix(kSpread, bytes.size());
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) state = mix(state, take_number<std::uint64_t>(bytes.subspan(at, 8)));
  std::uint64_t rest = 0;
  for (std::size_t i = at; i < bytes.size(); ++i) rest |= std::uint64_t{bytes[i]} << (8 * (i - at));
  return mix(mix(state, rest), kSpread);
}

FileHeader make_file_header() {
  FileHeader header{};
  std::ranges::copy(kFileMagic, header.begin());
  put_number<std::uint32_t>(std::span(header).subspan(8), kFormatVersion);
  return header;
}

BlockHeader make_block_header(std::span<const std::uint8_t> payload, std::uint32_t events) {
  BlockHeader header{};
  const std::span at(header);
  std::ranges::copy(kBlockMagic, header.begin());
  put_number<std::uint16_t>(at.subspan(4), kFormatVersion);
  put_number(at.subspan(8), static_cast<std::uint32_t>(payload.size()));
  put_number(at.subspan(12), events);
  put_number(at.subspan(16), checksum(payload));
  put_number(at.subspan(24), checksum(at.first(24)));
  return header;
}

std::span<const std::uint8_t> BlockBuilder::seal() {
  std::ranges::copy(make_block_header(encoder_.payload(), events_), encoder_.prefix().begin());
  events_ = 0;
  return encoder_.whole();
}

void check_file_header(std::span<const std::uint8_t> header, std::string_view file) {
  FileHeader expected = make_file_header();
  if (header.size() > 8 && header[8] >= kOldestVersion && header[8] < kFormatVersion) expected[8] = header[8];
  const auto same = std::ranges::mismatch(header, expected);
  const auto at = static_cast<std::size_t>(same.in1 - header.begin());
  if (same.in1 == header.end()) return;
  if (at < kFileMagic.size()) fail_input(file, at, "expected a Spillway trace, which begins with \"SPILLWAY\"");
  if (header.size() < 12) fail_input(file, at, fmt::format("expected version {} to {} of the trace format", kOldestVersion, kFormatVersion));
  fail_input(file, 8,
             fmt::format("expected version {} to {} of the trace format, found {}", kOldestVersion, kFormatVersion,
                         take_number<std::uint32_t>(header.subspan(8))));
}

void check_block_magic(std::span<const std::uint8_t> header, std::string_view file, std::uint64_t offset) {
  if (!text_of(header).starts_with(kBlockMagic.substr(0, header.size())))
    fail_input(file, offset, "expected a block, which begins with \"SPTB\"");
}

BlockShape parse_block_header(const BlockHeader& header, std::string_view file, std::uint64_t offset) {
  const std::span at(header);
  check_block_magic(at, file, offset);
  if (take_number<std::uint64_t>(at.subspan(24)) != checksum(at.first(24)))
    fail_input(file, offset, "expected a block header with its checksum, found a damaged one");
  const auto version = take_number<std::uint16_t>(at.subspan(4));
  if (version < kOldestVersion || version > kFormatVersion)
    fail_input(file, offset + 4,
               fmt::format("expected version {} to {} of a block, found {}", kOldestVersion, kFormatVersion, version));
  const BlockShape shape{version, take_number<std::uint32_t>(at.subspan(8)), take_number<std::uint32_t>(at.subspan(12)),
                         take_number<std::uint64_t>(at.subspan(16))};
  if (shape.length > kMaxPayloadBytes)
    fail_input(file, offset + 8,
               fmt::format("expected a block of at most {} bytes, found {}", kMaxPayloadBytes, shape.length));
  return shape;
}

}  // namespace spillway
