// The frame of a trace file: a header of 16 bytes, then blocks that can each be checked and decoded alone.
//
//   file    "SPILLWAY"  version u32  0 u32                                      (all numbers little-endian)
//   block   "SPTB"  version u16  0 u16  payload length u32  events u32  payload checksum u64  header checksum u64
//           payload
//
// The header has a checksum of its own, so that a length is believed only when it is what was written: a whole header
// with too few bytes after it is a truncated file, anything else that does not fit is a damaged one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "trace/encode.h"

namespace spillway {

inline constexpr std::size_t kFileHeaderBytes = 16;
inline constexpr std::size_t kBlockHeaderBytes = 32;
// Blocks are closed when they reach this: one write per some 2,000 ops, and no more than that lost in a crash.
inline constexpr std::size_t kBlockBytes = 64 * 1024;
// No event is larger than this, so no block is; a header that claims more is damaged or hostile.
inline constexpr std::size_t kMaxPayloadBytes = 256 * 1024 * 1024;

using FileHeader = std::array<std::uint8_t, kFileHeaderBytes>;
using BlockHeader = std::array<std::uint8_t, kBlockHeaderBytes>;

struct BlockShape {
  std::uint16_t version = kFormatVersion;
  std::uint32_t length = 0;  // of the payload, in bytes
  std::uint32_t events = 0;
  std::uint64_t checksum = 0;  // of the payload
};

// 64 bits over 8-byte words; every step is a bijection of both the state and the word, so a change within one word is
// always seen, any other with all but 2^-64.
[[nodiscard]] std::uint64_t checksum(std::span<const std::uint8_t> bytes);

[[nodiscard]] FileHeader make_file_header();
[[nodiscard]] BlockHeader make_block_header(std::span<const std::uint8_t> payload, std::uint32_t events);

// These throw InputError naming the file and the byte where something else was expected. The first two take what there
// is of a header, whole or cut short.
void check_file_header(std::span<const std::uint8_t> header, std::string_view file);
void check_block_magic(std::span<const std::uint8_t> header, std::string_view file, std::uint64_t offset);
[[nodiscard]] BlockShape parse_block_header(const BlockHeader& header, std::string_view file, std::uint64_t offset);

// Collects events into one block; nothing is allocated once it has seen a full one.
class BlockBuilder {
 public:
  [[nodiscard]] bool empty() const { return events_ == 0; }
  // Time to seal: the next event of ordinary size might not fit under kBlockBytes.
  [[nodiscard]] bool full() const { return encoder_.size() + kMaxFieldBytes + kBlockHeaderBytes > kBlockBytes; }
  [[nodiscard]] std::uint32_t events() const { return events_; }

  template <class E>
  void add(const E& event) {
    if (events_ == 0) encoder_.clear();
    const EventExtent more = extent(event);
    SPILLWAY_ENSURE(5 * more.ids + more.text < kMaxPayloadBytes - kBlockBytes, "an event fits into a block");
    encoder_.make_room(more.ids, more.text);
    encoder_.put_event(event);
    ++events_;
  }

  // The block with its header; valid until the next add(), which begins a new block.
  [[nodiscard]] std::span<const std::uint8_t> seal();

 private:
  Encoder encoder_{kBlockHeaderBytes};
  std::uint32_t events_ = 0;
};

// Decodes blocks that were just built here: take(event) for each event.
template <class Take>
void decode_blocks(std::span<const std::uint8_t> blocks, EventScratch& scratch, Take&& take) {
  while (!blocks.empty()) {
    BlockHeader header;
    std::ranges::copy(blocks.first(kBlockHeaderBytes), header.begin());
    const auto [version, length, events, sum] = parse_block_header(header, "a block in memory", 0);
    Decoder decoder(blocks.subspan(kBlockHeaderBytes, length), {"a block in memory", 0}, version);
    while (!decoder.done()) decode_event(decoder, scratch, take);
    blocks = blocks.subspan(kBlockHeaderBytes + length);
  }
}

}  // namespace spillway
