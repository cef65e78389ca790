// Hostile bytes: whatever a file holds, reading it ends in a trace or in an InputError, never in anything else.
//
// Valid files are damaged at random (bits flipped, bytes set, cut, spliced, lengths changed) and read. Half of them get
// their checksums mended afterwards, so that the damage reaches the decoder behind them. What can be read is also
// handed to everything that takes a trace. Run under the address sanitizer, this is the proof that none of it reads or
// writes where it should not; the sizes of what is read are bounded by the sizes of the files, which bounds the memory.
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "base/error.h"
#include "support/long_run.h"
#include "support/trace_samples.h"
#include "trace/check.h"
#include "trace/json_lines.h"
#include "trace/reader.h"
#include "trace/recorded_step.h"
#include "trace/summary.h"

namespace spillway {
namespace {

using FileBytes = std::vector<std::uint8_t>;

FileBytes several_blocks() {
  FileBytes bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), WriterOptions::keep_all());
  std::size_t count = 0;
  for (const Event& event : testing::one_of_each()) {
    writer.write(event);
    if (++count % 5 == 0) writer.flush();
  }
  writer.close();
  return bytes;
}

FileBytes bounded_run() {
  FileBytes bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), {.first_steps = 1, .last_steps = 1});
  testing::Loop loop(writer, 4);
  for (int i = 0; i < 6; ++i) loop.step();
  writer.close();
  return bytes;
}

class Damage {
 public:
  explicit Damage(std::uint64_t seed) : random_(seed) {}

  FileBytes apply(FileBytes bytes, const FileBytes& other) {
    const std::size_t times = 1 + pick(4);
    for (std::size_t i = 0; i < times && !bytes.empty(); ++i) damage(bytes, other);
    if (pick(2) == 0) mend_checksums(bytes);
    return bytes;
  }
  std::size_t pick(std::size_t below) { return below == 0 ? 0 : random_() % below; }

 private:
  void damage(FileBytes& bytes, const FileBytes& other) {
    const std::size_t at = pick(bytes.size());
    switch (pick(7)) {
      case 0:
        bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ (1 << pick(8)));
        break;
      case 1:
        bytes[at] = interesting();
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(
            bytes.begin() + static_cast<std::ptrdiff_t>(at),
            bytes.begin() + static_cast<std::ptrdiff_t>(at + pick(std::min<std::size_t>(40, bytes.size() - at))));
        break;
      case 4:
        splice(bytes, at, other);
        break;
      case 5:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 1 + pick(12), interesting());
        break;
      default:
        lie_about_length(bytes);
        break;
    }
  }
  std::uint8_t interesting() {
    constexpr std::uint8_t kValues[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0xfe, 0x08, 0x02};
    return pick(2) == 0 ? kValues[pick(sizeof(kValues))] : static_cast<std::uint8_t>(pick(256));
  }
  void splice(FileBytes& bytes, std::size_t at, const FileBytes& other) {
    const std::size_t from = pick(other.size());
    const std::size_t size = std::min(pick(200), other.size() - from);
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), other.begin() + static_cast<std::ptrdiff_t>(from),
                 other.begin() + static_cast<std::ptrdiff_t>(from + size));
  }
  // The length or the count of events of some block becomes any other number.
  void lie_about_length(FileBytes& bytes) {
    if (bytes.size() < kFileHeaderBytes + kBlockHeaderBytes) return;
    const std::size_t field = kFileHeaderBytes + 8 + 4 * pick(2);
    for (std::size_t i = 0; i < 4; ++i) bytes[field + i] = pick(2) == 0 ? interesting() : bytes[field + i];
  }
  // Walks the blocks as far as they can be found and writes the headers that belong to their payloads.
  static void mend_checksums(FileBytes& bytes) {
    for (std::size_t at = kFileHeaderBytes; at + kBlockHeaderBytes <= bytes.size();) {
      const auto number = [&](std::size_t field) {
        std::size_t value = 0;
        for (std::size_t i = 0; i < 4; ++i) value |= std::size_t{bytes[at + field + i]} << (8 * i);
        return value;
      };
      const std::size_t length = std::min(number(8), bytes.size() - at - kBlockHeaderBytes);
      const auto header = make_block_header(std::span(bytes).subspan(at + kBlockHeaderBytes, length),
                                            static_cast<std::uint32_t>(number(12)));
      std::ranges::copy(header, bytes.begin() + static_cast<std::ptrdiff_t>(at));
      at += kBlockHeaderBytes + length;
    }
  }

  std::mt19937_64 random_;
};

struct Outcomes {
  std::int64_t read = 0, refused = 0, events = 0;
};

// Everything a trace from outside goes through.
void use(const Trace& trace, bool thoroughly) {
  std::ignore = check_trace(trace);
  std::ignore = summarize(trace);
  if (!thoroughly) return;
  std::ostringstream out;
  export_jsonl(trace, out);
  std::istringstream in(out.str());
  ASSERT_EQ(import_jsonl(in, "fuzz").events, trace.events);
  ASSERT_EQ(densify(trace).events.size(), trace.events.size());
}

Outcomes fuzz(const FileBytes& good, const FileBytes& other, std::int64_t times, std::uint64_t seed) {
  Damage damage(seed);
  Outcomes outcomes;
  for (std::int64_t i = 0; i < times; ++i) {
    const FileBytes bad = damage.apply(good, other);
    try {
      const Trace trace = read_trace(bad, "fuzz");
      ++outcomes.read;
      outcomes.events += static_cast<std::int64_t>(trace.events.size());
      use(trace, i % 64 == 0);
    } catch (const InputError& error) {
      ++outcomes.refused;
      EXPECT_NE(std::string(error.what()).find("fuzz: byte "), std::string::npos) << error.what();
    }
  }
  return outcomes;
}

// Both ways out are taken often, or the fuzzing does not fuzz.
void expect_both(const Outcomes& outcomes, std::int64_t times) {
  EXPECT_EQ(outcomes.read + outcomes.refused, times);
  EXPECT_GT(outcomes.read, times / 50);
  EXPECT_GT(outcomes.refused, times / 4);
  EXPECT_GT(outcomes.events, times / 4);
}

TEST(TraceFuzz, ADamagedFileOfEveryEventIsReadOrRefused) {
  const std::int64_t times = testing::scaled(120'000);
  expect_both(fuzz(several_blocks(), bounded_run(), times, /*seed=*/1), times);
}

TEST(TraceFuzz, ADamagedFileOfABoundedRunIsReadOrRefused) {
  const std::int64_t times = testing::scaled(80'000);
  expect_both(fuzz(bounded_run(), several_blocks(), times, /*seed=*/2), times);
}

TEST(TraceFuzz, RandomBytesBehindAGoodHeaderAreRefusedOrEndEarly) {
  std::mt19937_64 random(3);
  for (std::int64_t i = 0; i < testing::scaled(20'000); ++i) {
    FileBytes payload(random() % 300);
    for (std::uint8_t& byte : payload) byte = static_cast<std::uint8_t>(random());
    FileBytes bytes(kFileHeaderBytes);
    std::ranges::copy(make_file_header(), bytes.begin());
    const auto header = make_block_header(payload, static_cast<std::uint32_t>(random() % 20));
    bytes.insert(bytes.end(), header.begin(), header.end());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    try {
      use(read_trace(bytes, "fuzz"), true);
    } catch (const InputError&) {}
  }
}

// The texts people may edit by hand.
template <class Read>
void fuzz_text(const std::string& good, std::int64_t times, std::uint64_t seed, Read read) {
  std::mt19937_64 random(seed);
  constexpr std::string_view kPieces[] = {"\"", "{",     "}",    "[",    "]",  ",",    ":",  "-",
                                          "9",  "1e308", "null", "true", "\n", "\xff", "op", "0"};
  std::int64_t refused = 0;
  for (std::int64_t i = 0; i < times; ++i) {
    std::string bad = good;
    for (std::size_t k = random() % 3 + 1; k > 0; --k) {
      const std::size_t at = random() % bad.size();
      if (random() % 2 == 0) bad.erase(at, random() % 8);
      if (random() % 2 == 0) bad.insert(std::min(at, bad.size()), kPieces[random() % std::size(kPieces)]);
      if (bad.empty()) bad = "x";
    }
    try {
      use(read(bad), false);
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, times / 4);
  EXPECT_LT(refused, times);
}

TEST(TraceFuzz, DamagedJsonLinesAreReadOrRefused) {
  std::ostringstream out;
  export_jsonl(Trace{.events = testing::one_of_each()}, out);
  fuzz_text(out.str(), testing::scaled(5'000), 4, [](const std::string& text) {
    std::istringstream in(text);
    return import_jsonl(in, "fuzz");
  });
}

TEST(TraceFuzz, ADamagedRecordedStepIsReadOrRefused) {
  const std::string good =
      R"({"name":"t","plain_ms":0.5,"peak":10000,"sto":[{"bytes":1000,"birth":0,"death":1000000000},)"
      R"({"bytes":3000,"birth":0,"death":2}],"ops":[)"
      R"({"n":"mm","i":[0],"o":[1],"m":[],"ph":"fwd","pk":3500,"al":8100,"us":1.5},)"
      R"({"n":"sgd_","i":[0,1],"o":[0],"m":[0],"ph":"opt","pk":0,"al":9000,"us":0.25}]})";
  fuzz_text(good, testing::scaled(20'000), 5, [](const std::string& text) {
    Trace trace = parse_recorded_step(text, "fuzz");
    EXPECT_TRUE(check_trace(trace).empty()) << text;
    return trace;
  });
}

}  // namespace
}  // namespace spillway
