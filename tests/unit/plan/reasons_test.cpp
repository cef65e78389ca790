#include "plan/reasons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "liveness/steps.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using testing::StepMaker;

// op      make   wait   use
// a, b    ####   ....   ####    10 ms unused; a can be made again in 2 ms, b cannot
TEST(Reasons, TellHowLongNobodyNeedsTheBytesAndWhatEitherRemedyCosts) {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::parameter);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("a", 100_MiB);
    maker.op("make a", {.in = {"x"}, .out = {"a"}, .takes = 2_ms});
    maker.birth("b", 100_MiB);
    maker.op("make b", {.in = {"x"}, .out = {"b"}, .takes = 2_ms, .replayable = false});
    maker.op("wait", {.in = {"x"}, .takes = 10_ms});
    maker.op("use", {.in = {"a", "b"}, .takes = 1_ms});
    maker.death("a");
    maker.death("b");
    maker.end();
  }
  const Trace trace = maker.trace();
  const Liveness step(trace, *find_steady_step(trace));
  const PlanRequest request{.step = step, .costs = {.out_nanos_per_byte = 0.02, .in_nanos_per_byte = 0.02, .out_price = 0.001, .in_price = 0.001, .per_copy = {}, .per_replay = {}},
                            .budget = 1_GiB};
  Plan plan;
  for (const Gap& gap : find_gaps(step)) {
    const LiveStorage& storage = step.storages()[gap.storage];
    if (storage.size != 100_MiB || gap.ends != GapEnd::access || gap.end >= step.op_count()) continue;
    const bool a = step.ops()[gap.begin - 1].duration == 2_ms && plan.gaps.empty();
    plan.gaps.push_back({gap, a ? Remedy::drop : Remedy::move, gap.end});
  }

  EXPECT_THAT(explain(request, plan),
              ElementsAre("idle for 12.0 ms; running its ops again takes 2.00 ms, moving it 4.19 ms of the link and 210 us of kernels",
                          "idle for 10.0 ms; out and back takes 4.19 ms of the link and 210 us of kernels, and it cannot be made again"));
  EXPECT_THAT(dearest_first(request, plan), ElementsAre(0, 1));  // 2 ms of kernels and 0.2 for the same bytes
}

}  // namespace
}  // namespace spillway
