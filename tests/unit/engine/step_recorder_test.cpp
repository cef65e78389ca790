#include "engine/step_recorder.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(StepRecorder, TakesTwoStepsAndThenHasThem) {
  StepRecorder recorder;
  recorder.begin();
  recorder.op({.name = "mm"}, {});
  EXPECT_FALSE(recorder.end_step());
  recorder.op({.name = "mm"}, {.shape = 1, .sized = 2});

  EXPECT_TRUE(recorder.end_step());

  EXPECT_EQ(recorder.take().keys, std::vector<std::uint64_t>{2});
  EXPECT_FALSE(recorder.on());
}

// An evaluation after the last step of a training would fill the host's memory otherwise.
TEST(StepRecorder, GivesUpOnAStepThatDoesNotEnd) {
  StepRecorder recorder;
  recorder.begin();

  for (std::size_t ops = 0; ops <= StepRecorder::kMostEvents; ++ops) recorder.op({.name = "mm"}, {});

  EXPECT_FALSE(recorder.on());
  EXPECT_FALSE(recorder.end_step());
}

}  // namespace
}  // namespace spillway
