#include "trace/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/error.h"
#include "support/trace_samples.h"
#include "trace/reader.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Sets every field of an event to one end of what its type holds.
struct Extreme {
  bool high;

  template <class Kind>
  void operator()(std::string_view, Id<Kind>& id) {
    id.index = high ? UINT32_MAX - 1 : 0;
  }
  void operator()(std::string_view, NameId& id) { id = {}; }
  template <class T>
  void announced(std::string_view, T&) {}
  template <class Kind>
  void operator()(std::string_view, Quantity<Kind>& value) {
    value.count = high ? INT64_MAX : INT64_MIN;
  }
  template <std::unsigned_integral T>
  void operator()(std::string_view, T& value) {
    value = high ? std::numeric_limits<T>::max() : T{0};
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void operator()(std::string_view, Enum& value) { value = static_cast<Enum>(high ? kWords<Enum>.size() - 1 : 0); }
  void operator()(std::string_view, std::vector<StorageId>& list) {
    list = high ? std::vector<StorageId>{{UINT32_MAX - 1}, {0}, {}, {UINT32_MAX - 1}} : std::vector<StorageId>{};
  }
  void operator()(std::string_view, std::vector<std::uint64_t>& words) {
    words = high ? std::vector<std::uint64_t>{UINT64_MAX, 0, UINT64_MAX} : std::vector<std::uint64_t>{};
  }
  template <std::size_t N>
  void operator()(std::string_view, std::array<Nanos, N>& values) {
    values.fill({high ? INT64_MAX : INT64_MIN});
  }
  void operator()(std::string_view, std::string& text) {
    text = high ? std::string(60'000, 'x') + "\u00e9\U0001f600" : "";
  }
  template <class T>
  void since(std::uint16_t, std::string_view field, T& value) {
    (*this)(field, value);
  }
  void moment(std::string_view, Nanos& at) { at.count = high ? INT64_MAX : INT64_MIN; }
};

std::vector<Event> extremes() {
  std::vector<Event> all;
  for (const Event& sample : testing::one_of_each()) {
    if (std::holds_alternative<Name>(sample)) continue;
    for (const bool high : {true, false, true}) {
      Event event = sample;
      Extreme extreme{high};
      std::visit([&](auto& one) { each_field(extreme, one); }, event);
      all.push_back(event);
    }
  }
  return all;
}

TEST(Encoding, HasANumberAndAWordOfItsOwnForEveryEvent) {
  std::set<int> numbers;
  std::set<std::string_view> words;
  for (const Event& event : testing::one_of_each()) {
    std::visit([&]<class E>(const E&) { numbers.insert(kTag<E>.number), words.insert(kTag<E>.word); }, event);
  }
  EXPECT_EQ(numbers.size(), std::variant_size_v<Event>);
  EXPECT_EQ(words.size(), std::variant_size_v<Event>);
  EXPECT_FALSE(numbers.contains(0));
}

TEST(Encoding, GivesBackEveryKindOfEvent) {
  const std::vector<Event> events = testing::one_of_each();
  EXPECT_EQ(read_trace(testing::write_to_memory(events), "memory").events, events);
}

TEST(Encoding, GivesBackTheLargestAndSmallestValuesOfEveryField) {
  const std::vector<Event> events = extremes();
  EXPECT_EQ(read_trace(testing::write_to_memory(events), "memory").events, events);
}

TEST(Encoding, GivesBackAnOpWrittenFromAView) {
  const Op op{.index = {7},
              .name = {},
              .phase = Phase::backward,
              .start = 3_ns,
              .inputs = {{1}, {2}},
              .outputs = {{3}},
              .mutated = {{1}},
              .aliased = {{2}}};
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), WriterOptions::keep_all());
  writer.write(op_view(op));
  writer.close();
  EXPECT_EQ(read_trace(bytes, "memory").events, std::vector<Event>{op});
}

TEST(Zigzag, FoldsSignsIntoSmallNumbersAndBack) {
  EXPECT_EQ(zigzag(0), 0u);
  EXPECT_EQ(zigzag(-1), 1u);
  EXPECT_EQ(zigzag(1), 2u);
  for (const std::int64_t value : {INT64_MIN, INT64_MAX, std::int64_t{-12345}})
    EXPECT_EQ(unzigzag(zigzag(value)), value);
}

Decoder decoder_over(const std::vector<std::uint8_t>& bytes) { return {bytes, {"x.spt", 100}}; }

TEST(Decoder, NamesFileAndOffsetWhereANumberIsCutShort) {
  const std::vector<std::uint8_t> bytes{0x80, 0x80};
  Nanos value;
  EXPECT_THAT([&] { decoder_over(bytes)("duration", value); },
              ThrowsMessage<InputError>("x.spt: byte 102: expected more of duration, found the end of the block"));
}

TEST(Decoder, RefusesANumberOfMoreThan64Bits) {
  const std::vector<std::uint8_t> bytes{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
  Bytes value;
  EXPECT_THAT([&] { decoder_over(bytes)("size", value); }, ThrowsMessage<InputError>(HasSubstr("at most 64 bits")));
}

TEST(Decoder, RefusesValuesTheirTypesDoNotHave) {
  const std::vector<std::uint8_t> nine{9}, two{2}, big{0x80, 0x80, 0x04};
  Phase phase{};
  bool flag = false;
  std::uint8_t small = 0;
  EXPECT_THAT([&] { decoder_over(nine)("phase", phase); },
              ThrowsMessage<InputError>(HasSubstr("expected phase in 0..3, found 9")));
  EXPECT_THAT([&] { decoder_over(two)("clean", flag); },
              ThrowsMessage<InputError>(HasSubstr("expected clean in 0..1")));
  EXPECT_THAT([&] { decoder_over(big)("granted", small); },
              ThrowsMessage<InputError>(HasSubstr("in 0..255, found 65536")));
}

TEST(Decoder, RefusesAListLongerThanTheRestOfTheBlockBeforeMakingRoomForIt) {
  const std::vector<std::uint8_t> bytes{0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2};
  std::vector<StorageId> list;
  EXPECT_THAT([&] { decoder_over(bytes)("inputs", list); }, ThrowsMessage<InputError>(HasSubstr("of at most 2 bytes")));
  EXPECT_EQ(list.capacity(), 0u);
}

TEST(Decoder, RefusesAnIdBeyond32Bits) {
  const std::vector<std::uint8_t> below{1}, above{0xfe, 0xff, 0xff, 0xff, 0x7f};
  StorageId id;
  EXPECT_THAT([&] { decoder_over(below)("storage", id); },
              ThrowsMessage<InputError>(HasSubstr("expected storage in 0..")));
  EXPECT_THAT([&] { decoder_over(above)("storage", id); },
              ThrowsMessage<InputError>(HasSubstr("expected storage in 0..")));
}

TEST(Decoder, RefusesTextThatIsNotUtf8) {
  const std::vector<std::uint8_t> bytes{2, 0xc3, 0x28};
  std::string text;
  EXPECT_THAT([&] { decoder_over(bytes)("value", text); },
              ThrowsMessage<InputError>(HasSubstr("expected value in UTF-8")));
}

TEST(Utf8, TakesWhatIsWellFormedAndNothingElse) {
  for (const char* good : {"", "plain", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xff"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

TEST(Utf8, IsMadeOfAnythingByReplacingAndCutting) {
  EXPECT_EQ(clean_text("a\xff\xc3\xa9z", 100), "a?\xc3\xa9z");
  EXPECT_EQ(clean_text("a\xc3\xa9z", 2), "a");
}

}  // namespace
}  // namespace spillway
