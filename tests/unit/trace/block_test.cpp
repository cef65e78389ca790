#include "trace/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::uint8_t> counting(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  return bytes;
}

TEST(Checksum, SeesEveryFlippedBitAndEveryLength) {
  for (std::size_t size = 1; size < 40; ++size) {
    std::vector<std::uint8_t> bytes = counting(size);
    const std::uint64_t whole = checksum(bytes);
    EXPECT_NE(checksum(std::span(bytes).first(size - 1)), whole);
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_NE(checksum(bytes), whole) << size << " bytes, bit " << bit;
      bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ (1 << (bit % 8)));
    }
  }
}

TEST(Checksum, TellsZerosOfDifferentLengthsApart) {
  EXPECT_NE(checksum(std::vector<std::uint8_t>(8)), checksum(std::vector<std::uint8_t>(16)));
  EXPECT_NE(checksum(std::vector<std::uint8_t>(1)), checksum(std::vector<std::uint8_t>(2)));
}

TEST(BlockHeader, SaysWhatTheBlockHolds) {
  const auto payload = counting(1000);
  const BlockShape shape = parse_block_header(make_block_header(payload, 17), "x.spt", 16);
  EXPECT_EQ(shape.length, 1000u);
  EXPECT_EQ(shape.events, 17u);
  EXPECT_EQ(shape.checksum, checksum(payload));
}

TEST(BlockHeader, IsRefusedWithAnyBitFlipped) {
  const BlockHeader good = make_block_header(counting(50), 3);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    BlockHeader bad = good;
    bad[bit / 8] = static_cast<std::uint8_t>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THROW(std::ignore = parse_block_header(bad, "x.spt", 16), InputError) << "bit " << bit;
  }
}

TEST(FileHeader, OfAnotherKindOfFileIsRefusedAtTheFirstForeignByte) {
  const std::vector<std::uint8_t> json{'{', '"', 'n', 'a', 'm', 'e', '"', ':', ' ', '1', '}', ' ', ' ', ' ', ' ', ' '};
  EXPECT_THAT([&] { check_file_header(json, "x.json"); },
              ThrowsMessage<InputError>("x.json: byte 0: expected a Spillway trace, which begins with \"SPILLWAY\""));
}

TEST(FileHeader, OfAnotherVersionIsRefusedNamingBoth) {
  FileHeader header = make_file_header();
  header[8] = 9;
  EXPECT_THAT([&] { check_file_header(header, "x.spt"); },
              ThrowsMessage<InputError>(HasSubstr("byte 8: expected version 1 to 5 of the trace format, found 9")));
}

TEST(FileHeader, CutShortIsNoOffence) {
  const FileHeader header = make_file_header();
  for (std::size_t size = 0; size <= header.size(); ++size)
    EXPECT_NO_THROW(check_file_header(std::span(header).first(size), "x.spt")) << size;
}

}  // namespace
}  // namespace spillway
