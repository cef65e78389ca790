#include "engine/calm.h"

#include <gtest/gtest.h>

#include "unit/engine/engine_fixture.h"

namespace spillway {
namespace {

// Counts go on from step to step.
class Steps {
 public:
  bool end(bool nobody_left, std::uint64_t ops = 10, std::uint64_t storages = 5, Bytes asked = 1_MiB) {
    now_.ops += ops;
    now_.storages += storages;
    now_.asked += asked;
    calm_.end_step(nobody_left, now_);
    return calm_.lasts();
  }

 private:
  Calm calm_;
  Calm::Count now_;
};

TEST(Calm, ThreeStepsAlikeAreCalm) {
  Steps steps;
  EXPECT_FALSE(steps.end(true));
  EXPECT_FALSE(steps.end(true));
  EXPECT_TRUE(steps.end(true));
  EXPECT_TRUE(steps.end(true));
}

TEST(Calm, EndsWithWhoeverLeaves) {
  Steps steps;
  for (int i = 0; i < 4; ++i) steps.end(true);
  EXPECT_FALSE(steps.end(false));
  EXPECT_FALSE(steps.end(true));
  EXPECT_FALSE(steps.end(true));
  EXPECT_TRUE(steps.end(true));
}

TEST(Calm, StepsOfOtherOpsStoragesOrBytesAreNotAlike) {
  const auto ends_with = [](std::uint64_t ops, std::uint64_t storages, Bytes asked) {
    Steps steps;
    for (int i = 0; i < 4; ++i) steps.end(true);
    return steps.end(true, ops, storages, asked);
  };
  EXPECT_TRUE(ends_with(10, 5, 1_MiB));
  EXPECT_FALSE(ends_with(11, 5, 1_MiB));
  EXPECT_FALSE(ends_with(10, 6, 1_MiB));
  EXPECT_FALSE(ends_with(10, 5, 2_MiB));
}

// An engine whose storages may be dropped, with so much room below.
class CalmEngine : public EngineTest {
 protected:
  struct Cheaper {
    explicit Cheaper(Owner& owner, Bytes host_limit) : engine{device, owner, device.caller_stream(), with(host_limit)} {}

    static EngineOptions with(Bytes host_limit) {
      EngineOptions options = EngineTest::options();
      options.leave = Leave::cheaper;
      options.host_limit = host_limit;
      return options;
    }

    bool wants_recipes() {
      const auto lock = engine.lock();
      return engine.wants_recipes();
    }

    void run_steps(int count) {
      for (int i = 0; i < count; ++i) engine.end_step();
    }

    Storage make(Bytes size) {
      Storage storage{.record = engine.try_allocate(size, device.caller_stream())};
      storage.data = storage.record->data;
      return storage;
    }

    HostDevice device{HostOptions{.granule = kGranule}};
    Engine engine;
  };

  Cheaper calm{owner, 16_MiB};
};

TEST_F(CalmEngine, SparesRecipesWhereStepsRepeatAndEverybodyStays) {
  EXPECT_TRUE(calm.wants_recipes());
  calm.run_steps(1);
  EXPECT_TRUE(calm.wants_recipes());
  calm.run_steps(3);
  EXPECT_FALSE(calm.wants_recipes());
}

TEST_F(CalmEngine, TakesRecipesAgainOnceSomebodyLeaves) {
  calm.run_steps(4);
  Storage storage = calm.make(100_KiB);
  {
    const auto lock = calm.engine.lock();
    calm.engine.adopt(storage.record, &storage);
  }
  ASSERT_FALSE(calm.wants_recipes());

  calm.engine.evict_all(Leave::move);

  EXPECT_TRUE(calm.wants_recipes());
}

TEST_F(CalmEngine, TakesRecipesAgainUnderAnotherBudget) {
  calm.run_steps(4);
  ASSERT_FALSE(calm.wants_recipes());

  calm.engine.set_budget(kBudget / 2);

  EXPECT_TRUE(calm.wants_recipes());
}

// A larger step may come, and whoever is at home then has no recipe.
TEST_F(CalmEngine, TakesRecipesWhereThereIsLessRoomBelowThanABudgetHolds) {
  Cheaper cramped(owner, kBudget / 2);

  cramped.run_steps(6);

  EXPECT_TRUE(cramped.wants_recipes());
}

// Who has to leave must be dropped there.
TEST_F(CalmEngine, TakesRecipesWhereThereIsNoRoomBelow) {
  Cheaper cramped(owner, 64_KiB);
  const Storage storage = cramped.make(100_KiB);

  cramped.run_steps(6);

  EXPECT_TRUE(cramped.wants_recipes());
  EXPECT_TRUE(cramped.engine.free(storage.data));
}

}  // namespace
}  // namespace spillway
