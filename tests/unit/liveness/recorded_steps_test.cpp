// The six recorded steps in traces/: figures that were looked at once and change only with the code's meaning.
#include <gtest/gtest.h>

#include <string>

#include "liveness/curve.h"
#include "liveness/floor.h"
#include "liveness/gaps.h"
#include "trace/recorded_step.h"
#include "trace/summary.h"

namespace spillway {
namespace {

struct Expected {
  const char* model;
  OpPlace ops;
  StoragePlace storages;
  std::size_t accesses, gaps;
  std::int64_t peak_live, peak;
  OpPlace peak_op;
  const char* floor_name;
  std::int64_t floor;
  friend std::ostream& operator<<(std::ostream& out, const Expected& expected) { return out << expected.model; }
};

class RecordedStep : public ::testing::TestWithParam<Expected> {};

TEST_P(RecordedStep, HasTheFiguresThatWereReviewed) {
  const Expected& expected = GetParam();
  const Trace trace = import_recorded_step(std::string(SPILLWAY_SOURCE_DIR "/traces/") + expected.model + ".json.gz");
  const Liveness liveness(trace, *find_steady_step(trace));
  const LiveCurve curve = live_curve(liveness);
  const Floor floor = find_floor(liveness);
  std::size_t accesses = 0;
  for (OpPlace op = 0; op < liveness.op_count(); ++op) accesses += liveness.accesses_at(op).size();

  EXPECT_EQ(liveness.op_count(), expected.ops);
  EXPECT_EQ(liveness.storage_count(), expected.storages);
  EXPECT_EQ(accesses, expected.accesses);
  EXPECT_EQ(find_gaps(liveness).size(), expected.gaps);
  EXPECT_EQ(curve.peak_live.count, expected.peak_live);
  EXPECT_EQ(curve.peak.count, expected.peak);
  EXPECT_EQ(curve.peak_op, expected.peak_op);
  EXPECT_EQ(trace.name(liveness.ops()[floor.op].name), expected.floor_name);
  EXPECT_EQ(floor.bytes.count, expected.floor);
  // Another road to the same figures: the summary follows the events one by one.
  EXPECT_EQ(curve.peak_live, summarize(trace).peak_live);
  EXPECT_EQ(curve.peak, summarize(trace).peak);
}

INSTANTIATE_TEST_SUITE_P(Models, RecordedStep,
                         ::testing::Values(Expected{"resnet50_b256", 856, 1207, 2834, 1790, 11794101672, 11794101672,
                                                    419, "aten.max_pool2d_with_indices_backward.default", 1412208024},
                                           Expected{"gpt2m_16x1024", 2903, 2907, 5932, 4368, 30975413128, 30975413128,
                                                    980, "aten._log_softmax_backward_data.default", 9958475116},
                                           Expected{"vgg16_b128", 246, 242, 589, 350, 7456342696, 7456342696, 139,
                                                    "aten.max_pool2d_with_indices_backward.default", 2742683712},
                                           Expected{"densenet121_b128", 3055, 3287, 8500, 4928, 8699539112, 8699539112,
                                                    950, "aten.max_pool2d_with_indices_backward.default", 736754808},
                                           Expected{"vit_b_16_b256", 1849, 1221, 2952, 2030, 18484915816, 18623328360,
                                                    709, "aten.gelu_backward.default", 999293120},
                                           Expected{"resnet50_b16_fp32", 690, 1094, 2661, 1766, 1688200616, 1698555816,
                                                    373, "aten.cudnn_batch_norm_backward.default", 233217944}),
                         [](const auto& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace spillway
