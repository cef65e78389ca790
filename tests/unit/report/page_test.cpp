#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "report/pack.h"
#include "report/perfetto.h"
#include "support/step_maker.h"
#include "support/trace_samples.h"
#include "trace/recorded_step.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::StepMaker;

Trace sample() {
  Trace trace;
  trace.events = testing::one_of_each();
  trace.names = {"aten.mm.default", "8x4 float", "lru", "idle for 3 ops"};
  return trace;
}

TEST(Base64, IsThatOfTheStandard) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(to_base64("\xff\xfe\xfd"), "//79");
}

TEST(Page, EveryKindOfEventIsTaken) { EXPECT_THAT(to_page(sample(), {.title = "x"}), HasSubstr("</html>")); }

TEST(Page, EqualTracesGiveEqualBytes) {
  const Trace trace = import_recorded_step(SPILLWAY_SOURCE_DIR "/traces/vgg16_b128.json.gz");

  EXPECT_EQ(to_page(trace, {.title = "x"}), to_page(trace, {.title = "x"}));
}

TEST(Page, FetchesNothing) {
  const std::string page = to_page(sample(), {.title = "x"});

  for (const char* road : {"http://", "https://", "src=", "@import", "url("}) EXPECT_THAT(page, Not(HasSubstr(road)));
}

// Whatever a name says, it is inside a pack: no text of a trace is ever markup.
TEST(Page, NamesAreNoMarkup) {
  StepMaker maker;
  maker.begin();
  maker.op("</script><script>alert(1)</script>", {});
  maker.end();

  EXPECT_THAT(to_page(maker.trace(), {.title = "<b>title"}), Not(AnyOf(HasSubstr("alert(1)"), HasSubstr("<b>title"))));
}

TEST(Page, ATraceWithoutOpsIsRefused) {
  StepMaker maker;
  maker.birth("a", 1_MiB);

  EXPECT_THROW((void)to_page(maker.trace(), {}), InputError);
}

TEST(Perfetto, IsJsonWithATrackForEachKindOfWork) {
  std::ostringstream out;
  write_perfetto(sample(), out);
  const auto json = nlohmann::json::parse(out.str());

  std::map<int, std::string> names;
  std::multiset<std::string> kinds;
  for (const auto& event : json["traceEvents"]) {
    kinds.insert(event["ph"]);
    if (event["ph"] == "X") names[event["tid"]] = event["name"];
  }
  EXPECT_EQ(names[0], "step 0");
  EXPECT_EQ(names[1], "aten.mm.default");
  EXPECT_EQ(names[2], "aten.mm.default");  // recomputed
  EXPECT_EQ(names[3], "storage 0 to host");
  EXPECT_EQ(names[5], "room");
  EXPECT_GE(kinds.count("C"), 4u);
}

}  // namespace
}  // namespace spillway
