#include "trace/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "support/trace_samples.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using testing::one_of_each;
using ::testing::ThrowsMessage;
using testing::write_to_memory;

using FileBytes = std::vector<std::uint8_t>;

// A file with one block around any payload, lawful or not.
FileBytes file_around(const std::vector<Event>& events, std::uint32_t count) {
  Encoder encoder;
  for (const Event& event : events) {
    encoder.make_room(100, 10'000);
    std::visit([&](const auto& one) { encoder.put_event(one); }, event);
  }
  FileBytes bytes;
  const auto append = [&](auto&& part) { bytes.insert(bytes.end(), part.begin(), part.end()); };
  append(make_file_header());
  append(make_block_header(encoder.payload(), count));
  append(encoder.payload());
  return bytes;
}

void read(const FileBytes& bytes) { std::ignore = read_trace(bytes, "x.spt"); }

TEST(TraceReader, ReadsAFileEventByEvent) {
  const std::string path = ::testing::TempDir() + "spillway_reader_" + std::to_string(getpid()) + ".spt";
  {
    TraceWriter writer(path);
    for (const Event& event : one_of_each()) writer.write(event);
  }
  TraceReader reader(path);
  for (const Event& expected : one_of_each()) EXPECT_EQ(reader.next(), expected);
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_FALSE(reader.truncated());
  unlink(path.c_str());
}

// Written by a program that knew of no other times than those the ops took.
TEST(TraceReader, ReadsAFileOfTheFirstVersion) {
  std::vector<Event> expected = one_of_each();
  for (Event& event : expected) {
    if (Op* op = std::get_if<Op>(&event)) op->lean = op->again = 0_ns;
  }
  std::erase_if(expected, [](const Event& event) { return std::holds_alternative<Call>(event); });  // there were none
  EXPECT_EQ(read_trace(SPILLWAY_SOURCE_DIR "/tests/golden/version1.spt").events, expected);
}

TEST(TraceReader, SaysWhichFileIsMissingAndWhichIsAFolder) {
  EXPECT_THAT([] { TraceReader reader("/nowhere/x.spt"); },
              ThrowsMessage<InputError>("/nowhere/x.spt: cannot be opened: No such file or directory"));
  EXPECT_THAT([] { TraceReader reader("/tmp"); },
              ThrowsMessage<InputError>("/tmp: expected a trace file, found a folder"));
}

TEST(TraceReader, TakesAnEmptyFileForOneThatEndsEarly) {
  const Trace trace = read_trace(FileBytes{}, "x.spt");
  EXPECT_TRUE(trace.truncated);
  EXPECT_EQ(trace.whole_until, 0_B);
}

TEST(TraceReader, SeesAFlippedBitInAPayloadWhereverItIs) {
  const FileBytes good = write_to_memory(one_of_each());
  for (std::size_t at = kFileHeaderBytes + kBlockHeaderBytes; at < good.size(); ++at) {
    FileBytes bad = good;
    bad[at] ^= 0x10;
    EXPECT_THAT([&] { read(bad); },
                ThrowsMessage<InputError>(HasSubstr("x.spt: byte 48: expected a block that matches its checksum")));
  }
}

TEST(TraceReader, NamesTheOffsetOfTheBlockThatIsNone) {
  FileBytes bytes = write_to_memory(one_of_each());
  const std::size_t end = bytes.size();
  bytes.insert(bytes.end(), 100, 'x');
  EXPECT_THAT([&] { read(bytes); }, ThrowsMessage<InputError>("x.spt: byte " + std::to_string(end) +
                                                              ": expected a block, which begins with \"SPTB\""));
  bytes.resize(end + 1);
  EXPECT_THROW(read(bytes), InputError) << "one foreign byte is not the beginning of a block";
}

TEST(TraceReader, RefusesABlockWithMoreOrFewerEventsThanItSays) {
  const std::vector<Event> two{Restart{1_ns}, Restart{2_ns}};
  EXPECT_NO_THROW(read(file_around(two, 2)));
  EXPECT_THAT([&] { read(file_around(two, 1)); },
              ThrowsMessage<InputError>(HasSubstr("expected the end of the block")));
  EXPECT_THAT([&] { read(file_around(two, 3)); }, ThrowsMessage<InputError>(HasSubstr("found the end of the block")));
  EXPECT_THAT([&] { read(file_around(two, 0)); },
              ThrowsMessage<InputError>(HasSubstr("expected the end of the block")));
}

TEST(TraceReader, RefusesANameThatWasNotAnnounced) {
  EXPECT_THAT([] { read(file_around({Op{.index = {0}, .name = {4}}}, 1)); },
              ThrowsMessage<InputError>(HasSubstr("expected a name that was announced, found name 4")));
}

TEST(TraceReader, RefusesNamesOutOfOrderBeforeMakingRoomForThem) {
  EXPECT_THAT(
      [] {
        read(file_around({Name{NameId{4'000'000'000}, "far"}}, 1));
      },
      ThrowsMessage<InputError>(HasSubstr("expected name 0, found name 4000000000")));
  EXPECT_THAT(
      [] {
        read(file_around({Name{NameId{0}, "a"}, Name{NameId{1}, "a"}}, 2));
      },
      ThrowsMessage<InputError>(HasSubstr("expected a text of its own for name 1")));
}

TEST(TraceReader, RefusesAnEventItDoesNotKnow) {
  FileBytes bytes = file_around({Restart{1_ns}}, 1);
  bytes[kFileHeaderBytes + kBlockHeaderBytes] = 99;
  const auto header = make_block_header(std::span(bytes).subspan(kFileHeaderBytes + kBlockHeaderBytes), 1);
  std::ranges::copy(header, bytes.begin() + kFileHeaderBytes);
  EXPECT_THAT([&] { read(bytes); },
              ThrowsMessage<InputError>("x.spt: byte 49: expected the number of an event, found 99"));
}

// A whole header that promises more than the file has is a file cut short, and costs no memory for the promise.
TEST(TraceReader, TakesABlockLongerThanTheFileForACutOne) {
  FileBytes bytes(kFileHeaderBytes);
  std::ranges::copy(make_file_header(), bytes.begin());
  const auto header = make_block_header(FileBytes(1'000'000), 1);
  bytes.insert(bytes.end(), header.begin(), header.end());
  const Trace trace = read_trace(bytes, "x.spt");
  EXPECT_TRUE(trace.truncated);
  EXPECT_EQ(trace.whole_until, 16_B);
}

TEST(Densify, NumbersStoragesAndOpsInOrderOfAppearance) {
  Trace trace{.events = {StorageBirth{.storage = {900}}, StorageBirth{.storage = {7}},
                         Op{.index = {70}, .name = {}, .inputs = {{7}, {900}}, .outputs = {{}}},
                         StorageDeath{{900}, 1_ns}}};
  const Trace dense = densify(trace);
  const std::vector<Event> expected{StorageBirth{.storage = {0}}, StorageBirth{.storage = {1}},
                                    Op{.index = {0}, .name = {}, .inputs = {{1}, {0}}, .outputs = {{}}},
                                    StorageDeath{{0}, 1_ns}};
  EXPECT_EQ(dense.events, expected);
}

}  // namespace
}  // namespace spillway
