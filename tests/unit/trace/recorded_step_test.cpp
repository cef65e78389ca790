#include "trace/recorded_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/trace_samples.h"
#include "trace/check.h"
#include "trace/gzip.h"
#include "trace/reader.h"
#include "trace/summary.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// op           0 forward     1 backward     2 optimizer
// 0 batch      read
// 1 weight     read                         written
// 2 out        made          read, gone after
// 3 gradient                 made           read
// 4 momentum                                read, written
constexpr const char* kTiny = R"({"name": "tiny", "plain_ms": 0.5, "peak": 10000,
  "sto": [{"bytes": 1000, "birth": 0, "death": 1000000000, "dev": "cuda"},
          {"bytes": 2000, "birth": 0, "death": 1000000000, "dev": "cuda"},
          {"bytes": 3000, "birth": 0, "death": 2, "dev": "cuda"},
          {"bytes": 2000, "birth": 1, "death": 3, "dev": "cuda"},
          {"bytes": 2000, "birth": 2, "death": 1000000000, "dev": "cuda"}],
  "ops": [{"n": "mm", "i": [0, 1], "o": [2], "m": [], "ph": "fwd", "pk": 3500, "al": 8100, "us": 1.5},
          {"n": "mm_backward", "i": [2], "o": [3], "m": [], "ph": "bwd", "pk": 2000, "al": 9000, "us": 2},
          {"n": "sgd_", "i": [1, 3, 4], "o": [1], "m": [1, 4], "ph": "opt", "pk": 0, "al": 9000, "us": 0.25}]})";

Trace changed(const char* from, const char* to) {
  std::string text = kTiny;
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, std::string(from).size(), to);
  return parse_recorded_step(text, "x.json");
}

// What the picture says, event by event.
std::vector<Event> tiny_events() {
  const JobId job{0};
  return {
      Fact{"model", "tiny"},
      Fact{"plain_step_ns", "500000"},
      Fact{"plain_peak_bytes", "10000"},
      StorageBirth{{0}, 1000_B, StorageKind::input, job, 0_ns},
      StorageBirth{{1}, 2000_B, StorageKind::parameter, job, 0_ns},
      StorageBirth{{2}, 2000_B, StorageKind::optimizer_state, job, 0_ns},
      StorageBirth{{3}, 100_B, StorageKind::workspace, job, 0_ns},  // 8100 allocated, of which 8000 are known
      StepBegin{{0}, job, 0_ns, {}},
      StorageBirth{{4}, 3000_B, StorageKind::activation, job, 0_ns},
      Name{{0}, "mm"},
      Op{.index = {0},
         .name = {0},
         .phase = Phase::forward,
         .job = job,
         .step = {0},
         .stream = {0},
         .start = 0_ns,
         .duration = 1500_ns,
         .transient = 3500_B,
         .workspace = 500_B,
         .replayable = true,
         .inputs = {{0}, {1}},
         .outputs = {{4}}},
      StorageBirth{{5}, 2000_B, StorageKind::gradient, job, 1500_ns},
      Name{{1}, "mm_backward"},
      Op{.index = {1},
         .name = {1},
         .phase = Phase::backward,
         .job = job,
         .step = {0},
         .stream = {0},
         .start = 1500_ns,
         .duration = 2_us,
         .transient = 2000_B,
         .replayable = true,
         .inputs = {{4}},
         .outputs = {{5}}},
      StorageDeath{{4}, 3500_ns},
      Name{{2}, "sgd_"},
      Name{{3}, "belongs to the optimizer"},
      Op{.index = {2},
         .name = {2},
         .phase = Phase::optimizer,
         .job = job,
         .step = {0},
         .stream = {0},
         .start = 3500_ns,
         .duration = 250_ns,
         .why_not = {3},
         .inputs = {{1}, {5}, {2}},
         .outputs = {{1}},
         .mutated = {{1}, {2}}},
      StorageDeath{{5}, 3750_ns},
      StepEnd{{0}, job, 3750_ns},
  };
}

TEST(RecordedStep, BecomesALawfulTraceOfTheSameStep) {
  const Trace trace = parse_recorded_step(kTiny, "x.json");
  EXPECT_THAT(check_trace(trace), IsEmpty());
  EXPECT_EQ(trace.events, tiny_events());
}

TEST(RecordedStep, NamesTheRowAndFieldThatIsWrong) {
  EXPECT_THAT([] { changed("\"ph\": \"bwd\"", "\"ph\": \"sideways\""); },
              ThrowsMessage<InputError>("x.json: ops[1]: field \"ph\": expected one of fwd, bwd, opt"));
  EXPECT_THAT([] { changed("\"i\": [2]", "\"i\": [5]"); },
              ThrowsMessage<InputError>("x.json: ops[1]: field \"i\": expected storages below 5"));
  EXPECT_THAT([] { changed("\"us\": 2}", "\"us\": -2}"); },
              ThrowsMessage<InputError>(HasSubstr("ops[1]: field \"us\": expected a number")));
  EXPECT_THAT([] { changed("\"us\": 2}", "\"micros\": 2}"); },
              ThrowsMessage<InputError>("x.json: ops[1]: field \"us\" is missing"));
  EXPECT_THAT([] { changed("\"bytes\": 3000", "\"bytes\": 1e300"); },
              ThrowsMessage<InputError>(HasSubstr("sto[2]: field \"bytes\"")));
  EXPECT_THAT([] { changed("\"death\": 2", "\"death\": 1"); },
              ThrowsMessage<InputError>(
                  "x.json: ops[1]: field \"i\": expected storages between birth and death, which 2 is not"));
  EXPECT_THAT([] { changed("\"birth\": 1", "\"birth\": 7"); },
              ThrowsMessage<InputError>(HasSubstr("sto[3]: field \"birth\"")));
  EXPECT_THAT([] { std::ignore = parse_recorded_step("[]", "x.json"); },
              ThrowsMessage<InputError>(HasSubstr("one JSON object")));
  EXPECT_THAT(
      [] { std::ignore = parse_recorded_step(R"({"name":"e","plain_ms":1,"peak":1,"sto":[],"ops":[]})", "x.json"); },
      ThrowsMessage<InputError>("x.json: field \"ops\": expected at least one op"));
}

TEST(RecordedStep, RefusesSumsThatNoMachineHas) {
  EXPECT_THAT([] { changed("\"bytes\": 1000", "\"bytes\": 1125899906842624"); },
              ThrowsMessage<InputError>(HasSubstr("field \"sto\": expected no more than")));
}

// Torch's own peak of the same step, which the recording carries, is the oracle.
class RealStep : public ::testing::TestWithParam<const char*> {};

TEST_P(RealStep, HasTorchsPeakWithinAPercent) {
  const Trace trace = import_recorded_step(std::string(SPILLWAY_SOURCE_DIR "/traces/") + GetParam() + ".json.gz");
  EXPECT_THAT(check_trace(trace), IsEmpty());
  const auto recorded =
      nlohmann::json::parse(read_maybe_gzip(std::string(SPILLWAY_SOURCE_DIR "/traces/") + GetParam() + ".json.gz"));
  const double torch_peak = recorded["peak"].get<double>();
  EXPECT_NEAR(static_cast<double>(summarize(trace).peak.count), torch_peak, 0.01 * torch_peak);
  EXPECT_EQ(summarize(trace).ops, recorded["ops"].size());
}

TEST_P(RealStep, SurvivesTheFile) {
  const Trace trace = import_recorded_step(std::string(SPILLWAY_SOURCE_DIR "/traces/") + GetParam() + ".json.gz");
  const Trace back = read_trace(testing::write_to_memory(trace.events), "memory");
  EXPECT_TRUE(back.events == trace.events);
  EXPECT_EQ(back.names, trace.names);
}

INSTANTIATE_TEST_SUITE_P(Traces, RealStep,
                         ::testing::Values("resnet50_b256", "resnet50_b16_fp32", "vgg16_b128", "densenet121_b128",
                                           "vit_b_16_b256", "gpt2m_16x1024"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Gzip, SaysWhatIsWrongWithAFile) {
  const std::string path = ::testing::TempDir() + "spillway_gzip_" + std::to_string(getpid()) + ".gz";
  EXPECT_THAT([] { std::ignore = read_maybe_gzip("/nowhere/x.gz"); },
              ThrowsMessage<InputError>("/nowhere/x.gz: cannot be opened: No such file or directory"));
  EXPECT_THAT([] { std::ignore = read_maybe_gzip("/tmp"); },
              ThrowsMessage<InputError>("/tmp: expected a file, found a folder"));
  gzFile file = gzopen(path.c_str(), "wb");
  for (int i = 0; i < 10'000; ++i) gzprintf(file, "%d\n", i * i);
  gzclose(file);
  EXPECT_GT(read_maybe_gzip(path).size(), 10'000u);
  ASSERT_EQ(truncate(path.c_str(), 5000), 0);
  EXPECT_THAT([&] { std::ignore = read_maybe_gzip(path); }, ThrowsMessage<InputError>(HasSubstr("damaged gzip")));
  unlink(path.c_str());
}

TEST(Gzip, PassesPlainTextThrough) {
  const std::string path = ::testing::TempDir() + "spillway_plain_" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << kTiny;
  EXPECT_EQ(read_maybe_gzip(path), kTiny);
  EXPECT_EQ(import_recorded_step(path).events, parse_recorded_step(kTiny, "x").events);
  unlink(path.c_str());
}

}  // namespace
}  // namespace spillway
