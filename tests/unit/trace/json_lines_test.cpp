#include "trace/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "support/trace_samples.h"
#include "trace/reader.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kFirst = "{\"trace\":\"spillway\",\"version\":5,\"times\":\"ns\",\"sizes\":\"bytes\"}\n";

std::string exported(const std::vector<Event>& events) {
  std::ostringstream out;
  export_jsonl(Trace{.events = events}, out);
  return out.str();
}

Trace imported(const std::string& text) {
  std::istringstream in(text);
  return import_jsonl(in, "x.jsonl");
}

void read_after_first_line(const std::string& line) { std::ignore = imported(kFirst + line + "\n"); }

TEST(JsonLines, ShowAnEventAsOneReadableObject) {
  const Op op{.index = {3},
              .name = {0},
              .phase = Phase::backward,
              .job = {0},
              .step = {2},
              .stream = {1},
              .start = 5_us,
              .duration = 7_ns,
              .transient = 512_B,
              .inputs = {{4}, {5}},
              .outputs = {{6}},
              .lean = 2_ns,
              .again = 9_ns};
  EXPECT_EQ(exported({Name{NameId{0}, "aten.relu"}, op}),
            std::string(kFirst) +
                "{\"event\":\"name\",\"id\":0,\"text\":\"aten.relu\"}\n"
                "{\"event\":\"op\",\"index\":3,\"name\":\"aten.relu\",\"phase\":\"backward\",\"job\":0,\"step\":2,"
                "\"stream\":1,"
                "\"start\":5000,\"duration\":7,\"transient\":512,\"workspace\":0,\"replayable\":false,\"why_not\":null,"
                "\"inputs\":[4,5],\"outputs\":[6],\"mutated\":[],\"aliased\":[],\"lean\":2,\"again\":9}\n");
}

TEST(JsonLines, GiveBackEveryKindOfEvent) {
  EXPECT_EQ(imported(exported(testing::one_of_each())).events, testing::one_of_each());
}

TEST(JsonLines, GiveBackExtremeValuesAndAnyText) {
  const std::vector<Event> events{
      Fact{"quote \" \\ \n", "caf\u00e9 \U0001f600"}, StorageBirth{.storage = {UINT32_MAX - 1}, .size = {INT64_MIN}},
      Stall{.start = {INT64_MAX}, .duration = {INT64_MIN}}, Op{.index = {}, .inputs = {{}, {0}, {UINT32_MAX - 1}}}};
  EXPECT_EQ(imported(exported(events)).events, events);
}

TEST(JsonLines, BecomeTheSameFileAgain) {
  const auto bytes = testing::write_to_memory(testing::one_of_each());
  const Trace back = imported(exported(read_trace(bytes, "memory").events));
  EXPECT_EQ(testing::write_to_memory(back.events), bytes);
  EXPECT_EQ(back.names, read_trace(bytes, "memory").names);
}

// They have no lean times, and what has some is not of the first version.
TEST(JsonLines, OfTheFirstVersionAreRead) {
  const auto lines = [](int version, const std::string& lean) {
    return "{\"trace\":\"spillway\",\"version\":" + std::to_string(version) +
           ",\"times\":\"ns\",\"sizes\":\"bytes\"}\n{\"event\":\"op\",\"index\":0,\"name\":null,\"phase\":\"forward\",\"job\":0,"
           "\"step\":0,\"stream\":0,\"start\":0,\"duration\":7,\"transient\":0,\"workspace\":0,\"replayable\":true,\"why_not\":null,"
           "\"inputs\":[],\"outputs\":[],\"mutated\":[],\"aliased\":[]" + lean + "}\n";
  };
  EXPECT_EQ(std::get<Op>(imported(lines(1, "")).events.at(0)).lean, 0_ns);
  EXPECT_EQ(std::get<Op>(imported(lines(2, ",\"lean\":3")).events.at(0)).lean, 3_ns);
  EXPECT_THAT([&] { std::ignore = imported(lines(1, ",\"lean\":3")); }, ThrowsMessage<InputError>(HasSubstr("field \"lean\": expected one of")));
  EXPECT_THAT([&] { std::ignore = imported(lines(2, "")); }, ThrowsMessage<InputError>(HasSubstr("field \"lean\" is missing")));
  EXPECT_EQ(std::get<Op>(imported(lines(4, ",\"lean\":3")).events.at(0)).again, 0_ns);
  EXPECT_EQ(std::get<Op>(imported(lines(5, ",\"lean\":3,\"again\":4")).events.at(0)).again, 4_ns);
}

TEST(JsonLines, OfAnotherKindAreRefused) {
  EXPECT_THAT([] { std::ignore = imported("{\"a\": 1}\n"); },
              ThrowsMessage<InputError>(HasSubstr("x.jsonl: line 1: expected {\"trace\"")));
  EXPECT_THAT([] { std::ignore = imported(""); }, ThrowsMessage<InputError>(HasSubstr("x.jsonl: line 1")));
  EXPECT_THAT([] { read_after_first_line("nonsense"); },
              ThrowsMessage<InputError>("x.jsonl: line 2: expected a JSON object"));
}

TEST(JsonLines, SayWhichFieldIsWrongAndWhatIsAccepted) {
  EXPECT_THAT([] { read_after_first_line("{\"event\":\"party\"}"); },
              ThrowsMessage<InputError>(HasSubstr("line 2: field \"event\": expected one of fact, name, step_begin")));
  EXPECT_THAT([] { read_after_first_line("{\"event\":\"restart\"}"); },
              ThrowsMessage<InputError>("x.jsonl: line 2: field \"at\" is missing"));
  EXPECT_THAT(
      [] { read_after_first_line("{\"event\":\"restart\",\"at\":1.5}"); },
      ThrowsMessage<InputError>("x.jsonl: line 2: field \"at\": expected a whole number of 64 bits, found 1.5"));
  EXPECT_THAT([] { read_after_first_line("{\"event\":\"restart\",\"at\":18446744073709551615}"); },
              ThrowsMessage<InputError>(HasSubstr("64 bits")));
  EXPECT_THAT([] { read_after_first_line("{\"event\":\"role\",\"storage\":0,\"kind\":\"toy\"}"); },
              ThrowsMessage<InputError>(HasSubstr("field \"kind\": expected one of unknown, parameter")));
  EXPECT_THAT([] { read_after_first_line("{\"event\":\"role\",\"storage\":4294967295,\"kind\":\"input\"}"); },
              ThrowsMessage<InputError>(HasSubstr("field \"storage\": expected null or 0..4294967294")));
  EXPECT_THAT([] { read_after_first_line("{\"event\":\"restart\",\"at\":1,\"extra\":2}"); },
              ThrowsMessage<InputError>(HasSubstr("field \"extra\": expected one of at, found 2")));
  EXPECT_THAT([] { read_after_first_line("{\"event\":\"name\",\"id\":3,\"text\":\"x\"}"); },
              ThrowsMessage<InputError>(HasSubstr("line 2: expected name 0, found name 3")));
}

TEST(JsonLines, RefuseANameNobodyAnnounced) {
  EXPECT_THAT(
      [] { read_after_first_line("{\"event\":\"step_begin\",\"step\":0,\"job\":0,\"at\":0,\"signature\":\"8x8\"}"); },
      ThrowsMessage<InputError>(HasSubstr("field \"signature\": expected null or a text that a name event announced")));
}

}  // namespace
}  // namespace spillway
