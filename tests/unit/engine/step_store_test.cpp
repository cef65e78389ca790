#include "engine/step_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "liveness/curve.h"
#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

std::shared_ptr<const RecordedSteps> recorded(std::int64_t length) {
  StepMaker maker;
  maker.birth("weights", 1_MiB, StorageKind::parameter);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("ids", Bytes{8 * length}, StorageKind::input);
    maker.make("hidden", Bytes{1024 * length}, {"ids", "weights"});
    maker.op("back", {.in = {"hidden"}, .write = {"weights"}});
    for (const char* name : {"hidden", "ids"}) maker.death(name);
    maker.end();
  }
  RecordedSteps steps{.trace = maker.trace(), .keys = {1, 2}, .shapes = {11, 12}, .lean = {0_ns, 5_us}, .timed = {true, false}};
  return std::make_shared<const RecordedSteps>(std::move(steps));
}

Liveness planned(const RecordedSteps& steps) { return Liveness(steps.trace, *find_step(steps.trace, StepRecorder::kStep)); }

TEST(StepStore, StepsComeBackAsTheyWere) {
  const KnownSteps before{recorded(100), recorded(300)};

  const KnownSteps after = decode_steps(encode_steps(before, "us"), "us", "file");

  ASSERT_EQ(after.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(after[i]->keys, before[i]->keys);
    EXPECT_EQ(after[i]->shapes, before[i]->shapes);
    EXPECT_EQ(after[i]->lean, before[i]->lean);
    EXPECT_EQ(after[i]->timed, before[i]->timed);
    EXPECT_EQ(live_curve(planned(*after[i])).during, live_curve(planned(*before[i])).during);
    EXPECT_EQ(planned(*after[i]).starts().back(), planned(*before[i]).starts().back());
  }
}

TEST(StepStore, EveryByteThatDiffersOrIsMissingIsNoticed) {
  const std::vector<std::uint8_t> good = encode_steps({recorded(100)}, "us");

  for (std::size_t size = 0; size < good.size(); size += 7) {
    EXPECT_THROW((void)decode_steps(std::span(good).first(size), "us", "file"), InputError) << size;
  }
  for (std::size_t at = 0; at < good.size(); at += 3) {
    std::vector<std::uint8_t> bad = good;
    bad[at] ^= 0x40;
    EXPECT_THROW((void)decode_steps(bad, "us", "file"), InputError) << at;
  }
}

TEST(StepStore, WhatAnotherWroteIsRefusedByName) {
  try {
    (void)decode_steps(encode_steps({recorded(100)}, "torch 2.10"), "torch 2.11", "file");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "the kept steps in file were written by torch 2.10 and not by torch 2.11: they are not used");
  }
}

TEST(StepStore, AFolderKeepsStepsByTheRunsFirstStep) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "kept" / "steps";
  const StepStore store(folder.string(), "us");
  EXPECT_TRUE(store.load(7).empty());

  store.save(7, {recorded(100)});

  EXPECT_EQ(store.load(7).size(), 1u);
  EXPECT_TRUE(store.load(8).empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(StepStore, AFolderThatCannotBeWrittenIsToldInWords) {
  EXPECT_THROW(StepStore("/dev/null/steps", "us").save(7, {recorded(100)}), InputError);
}

TEST(Opening, TellsRunsApartByTheirOpsAndByTheirSizes) {
  Opening one, other_sizes, other_ops, swapped;
  for (const OpKey key : {OpKey{1, 10}, OpKey{2, 20}}) one.add(key);
  for (const OpKey key : {OpKey{1, 11}, OpKey{2, 20}}) other_sizes.add(key);
  for (const OpKey key : {OpKey{1, 10}, OpKey{3, 20}}) other_ops.add(key);
  for (const OpKey key : {OpKey{2, 20}, OpKey{1, 10}}) swapped.add(key);

  EXPECT_EQ(one.shape, other_sizes.shape);
  EXPECT_NE(one.sized, other_sizes.sized);
  EXPECT_NE(one.shape, other_ops.shape);
  EXPECT_NE(one.shape, swapped.shape);
}

}  // namespace
}  // namespace spillway
