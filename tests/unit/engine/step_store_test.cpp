#include "engine/step_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "liveness/curve.h"
#include "liveness/gaps.h"
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

// Tests of several builds may run side by side.
std::filesystem::path own_folder(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / (name + "_" + std::to_string(::getpid()));
}

TEST(StepStore, StepsComeBackAsTheyWere) {
  const KnownSteps before{recorded(100), recorded(300)};

  const KnownSteps after = decode_steps(encode_steps({before}, "us"), "us", "file").steps;

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
  const std::vector<std::uint8_t> good = encode_steps({{recorded(100)}}, "us");

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
    (void)decode_steps(encode_steps({{recorded(100)}}, "torch 2.10"), "torch 2.11", "file");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "the kept steps in file were written by torch 2.10 and not by torch 2.11: they are not used");
  }
}

// The plan of a step with one gap: the input stays below while the others run.
KeptSteps planned_steps() {
  const auto steps = recorded(10'000);
  const Liveness step = planned(*steps);
  Plan plan;
  for (const Gap& gap : find_gaps(step)) {
    if (gap.ends != GapEnd::unseen && gap.begin > 0 && step.storages()[gap.storage].size >= 64_KiB) plan.gaps.push_back({gap, Remedy::move, gap.end});
  }
  return {.steps = {steps}, .plan = KeptPlan{.policy = "hybrid", .budget = 9_MiB, .limit = 10_MiB, .entries = {{.at = 7, .next = 0, .sum = 99}, {.at = 9, .next = 1, .sum = 98}}, .gaps = plan.gaps}};
}

constexpr Costs kLink{.out_nanos_per_byte = 1, .in_nanos_per_byte = 1};

TEST(StepStore, APlanComesBackAsItWas) {
  const KeptSteps before = planned_steps();
  ASSERT_FALSE(before.plan->gaps.empty());

  const KeptSteps after = decode_steps(encode_steps(before, "us"), "us", "file");

  ASSERT_TRUE(after.plan.has_value());
  EXPECT_EQ(after.plan->policy, "hybrid");
  EXPECT_EQ(after.plan->budget, 9_MiB);
  EXPECT_EQ(after.plan->limit, 10_MiB);
  EXPECT_EQ(after.plan->entries, before.plan->entries);
  EXPECT_EQ(after.plan->gaps, before.plan->gaps);
  const auto script = script_of(after, kLink);
  EXPECT_EQ(script->plan().gaps, before.plan->gaps);
  EXPECT_EQ(script->budget(), 9_MiB);
  EXPECT_TRUE(script->staying_away().empty());  // nobody of this run has a number of that one
}

// A checksum tells that bytes are those that were written, and not that they make sense.
TEST(StepStore, PlansThatMakeNoSenseAreRefusedWhateverTheirChecksum) {
  const auto refused = [](auto change) {
    KeptSteps kept = planned_steps();
    change(*kept.plan);
    EXPECT_THROW((void)script_of(decode_steps(encode_steps(kept, "us"), "us", "file"), kLink), InputError);
  };
  refused([](KeptPlan& plan) { plan.gaps[0].gap.storage = 1'000'000; });
  refused([](KeptPlan& plan) { plan.gaps[0].gap.begin = 0; });
  refused([](KeptPlan& plan) { plan.gaps[0].gap.end = 4'000'000'000; });
  refused([](KeptPlan& plan) { plan.gaps[0].gap.begin = plan.gaps[0].gap.end; });
  refused([](KeptPlan& plan) { plan.gaps[0].gap.version += 1; });
  refused([](KeptPlan& plan) { plan.gaps[0].fetch_at = plan.gaps[0].gap.end + 1; });
  refused([](KeptPlan& plan) { plan.gaps.push_back(plan.gaps[0]); });
  refused([](KeptPlan& plan) { plan.entries[0].next = 2; });
  refused([](KeptPlan& plan) { plan.entries[0].at = 10; });
  refused([](KeptPlan& plan) { plan.budget = plan.limit + 1_B; });
  refused([](KeptPlan& plan) { plan.budget = -1_B; });
}

TEST(StepStore, FilesOfAnOlderVersionAreToldApart) {
  std::vector<std::uint8_t> old = encode_steps({{recorded(100)}}, "us");
  old[7] = '1';
  try {
    (void)decode_steps(old, "us", "file");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "the kept steps in file were written by an older version: they are not used");
  }
}

TEST(StepStore, AFolderKeepsStepsByTheRunsFirstStep) {
  const auto folder = own_folder("kept") / "steps";
  std::filesystem::remove_all(folder);
  const StepStore store(folder.string(), "us");
  EXPECT_TRUE(store.load({5, 7}).steps.empty());
  EXPECT_TRUE(store.find(5).empty());

  store.save({5, 7}, {{recorded(100)}});
  store.save({6, 7}, {{recorded(100)}});

  EXPECT_EQ(store.load({5, 7}).steps.size(), 1u);
  EXPECT_TRUE(store.load({5, 8}).steps.empty());
  EXPECT_EQ(store.find(5), (std::vector<StepKey>{{5, 7}}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
  std::filesystem::remove_all(folder);
}

TEST(StepStore, AFileUnderTheNameOfAnotherRunIsRefused) {
  const auto folder = own_folder("renamed");
  std::filesystem::remove_all(folder);
  const StepStore store(folder.string(), "us");
  store.save({5, 7}, {{recorded(100)}});
  std::filesystem::rename(folder / "0000000000000005-0000000000000007.steps", folder / "0000000000000005-0000000000000008.steps");

  EXPECT_THROW((void)store.load({5, 8}), InputError);
  std::filesystem::remove_all(folder);
}

TEST(StepStore, WhatCannotBeReadIsRefusedByName) {
  const auto folder = own_folder("unreadable");
  std::filesystem::create_directories(folder / "0000000000000005-0000000000000007.steps");

  EXPECT_THROW((void)StepStore(folder.string(), "us").load({5, 7}), InputError);
  std::filesystem::remove_all(folder);
}

// Whoever began alike is looked at, and not a whole folder of them.
TEST(StepStore, OfManyThatBeganAlikeTheLatestFewAreFound) {
  const auto folder = own_folder("many_kept");
  std::filesystem::remove_all(folder);
  const StepStore store(folder.string(), "us");
  for (std::uint64_t run = 1; run <= 6; ++run) {
    store.save({5, run}, {{recorded(100)}});
    const auto file = folder / ("0000000000000005-000000000000000" + std::to_string(run) + ".steps");
    std::filesystem::last_write_time(file, std::filesystem::file_time_type(std::chrono::hours(run)));
  }
  std::ofstream(folder / "another.steps") << "?";

  EXPECT_EQ(store.find(5), (std::vector<StepKey>{{5, 6}, {5, 5}, {5, 4}, {5, 3}}));
  std::filesystem::remove_all(folder);
}

TEST(StepStore, AFolderThatCannotBeWrittenIsToldInWords) {
  EXPECT_THROW(StepStore("/dev/null/steps", "us").save({5, 7}, {{recorded(100)}}), InputError);
}

}  // namespace
}  // namespace spillway
