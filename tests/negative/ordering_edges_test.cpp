// Every order between kernels and copies is needed: with any one of them left out, the race detector finds who comes too
// early. Without these "no race was found" would prove little.
//
//   kernel ──(out waits)──► way out ──(in waits)──► way in ──(kernel waits)──► kernel
//                              └──(whoever gets the block next waits: kernel or way in)
//   kernel ──(in waits)──► a way in to the block it used
//   way in ──(out waits)──► the next way out into the same place below
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>
#include <string>

#include "base/error.h"
#include "engine/engine.h"
#include "negative/leaky_device.h"
#include "unit/sim/sim_card.h"

namespace spillway {
namespace {

using testing::Lane;
using testing::Leak;
using testing::LeakyDevice;

// Storages are numbers; what has left has no bytes, and nobody looks.
class NoOwner final : public Owner {
 public:
  void* weak(Record& record) override { return record.owner; }
  void* hold(void* weak) override { return weak; }
  void unhold(void*) override {}
  bool may_detach(Record&) override { return true; }
  void detach(Record&) override {}
  void attach(Record&) override {}
  void disown(Record& record) override { record.owner = nullptr; }
  void rebuild(Record&) override { FAIL() << "nobody is dropped here"; }
};

// A random program in half of the memory it takes; the host is always far ahead of the card.
class Program {
 public:
  Program(Leak leak, std::uint32_t seed) : dice_(seed), device_(fake_, leak), engine_(device_, owner_, compute_, options()) {}

  // Empty when nobody came too early.
  std::string run() {
    try {
      for (int i = 0; i < 400; ++i) step();
      return {};
    } catch (const InvariantError& error) {
      return device_.tell(error.what());
    }
  }

 private:
  static EngineOptions options() {
    EngineOptions options;
    options.budget = 32_MiB;
    options.address_space = 256_MiB;
    options.granule = 2_MiB;
    options.host_limit = 256_MiB;
    options.policy = ReactivePolicy::lru;
    options.leave = Leave::move;
    return options;
  }

  void step() {
    if (records_.size() < 16 || pick(8) == 0) {
      Record* record = engine_.try_allocate(Bytes{1 << 20} * static_cast<int>(2 + pick(3)), compute_);
      ASSERT_NE(record, nullptr);
      {
        const auto lock = engine_.lock();
        engine_.adopt(record, this);
      }
      records_.push_back(record);
      use(record, /*write=*/true);
      return;
    }
    if (pick(8) == 0) {
      Record* first = records_.front();
      records_.pop_front();
      if (first->residence == Residence::resident) (void)engine_.free(first->data);
      else engine_.died(first);
      return;
    }
    use(records_[pick(static_cast<std::uint32_t>(records_.size()))], /*write=*/pick(3) == 0);
  }

  void use(Record* record, bool write) {
    const Use use{record, write};
    auto lock = engine_.lock();
    ASSERT_FALSE(engine_.acquire(std::span(&use, 1), compute_, lock).has_value());
    const MemoryUse touched{.place = {Tier::device, record->block.range.begin}, .size = record->size, .writes = write};
    fake_.compute(compute_, 1_ms, std::span(&touched, 1));
    engine_.release(std::span(&use, 1));
  }

  std::uint32_t pick(std::uint32_t sides) { return static_cast<std::uint32_t>(dice_() % sides); }

  std::mt19937 dice_;
  FakeDevice fake_{testing::quick_card(), {.detect_races = true}};
  StreamId compute_ = fake_.open_stream();
  LeakyDevice device_;
  NoOwner owner_;
  Engine engine_;
  std::deque<Record*> records_;
};

std::set<std::string> found(Leak leak) {
  std::set<std::string> races;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    if (std::string race = Program(leak, seed).run(); !race.empty()) races.insert(std::move(race));
  }
  return races;
}

using ::testing::Contains;
using ::testing::IsEmpty;

TEST(OrderingEdges, WithAllOfThemNobodyComesTooEarly) { EXPECT_THAT(found({.leaks = false}), IsEmpty()); }

TEST(OrderingEdges, AWayOutThatDoesNotWaitForTheLastUseCopiesTooEarly) {
  EXPECT_THAT(found({Lane::out, Lane::compute}), Contains("out reads what kernel writes on the device"));
}

TEST(OrderingEdges, ABlockGivenAwayBeforeTheWayOutHasEndedIsOverwritten) {
  EXPECT_THAT(found({Lane::compute, Lane::out}), Contains("kernel writes what out reads on the device"));
}

TEST(OrderingEdges, AWayInThatDoesNotWaitForTheBlocksLastUseOverwritesIt) {
  EXPECT_THAT(found({Lane::in, Lane::compute}), Contains("in writes what kernel reads on the device"));
}

TEST(OrderingEdges, AWayInThatDoesNotWaitForTheWayOutReadsWhatIsNotThereYet) {
  EXPECT_THAT(found({Lane::in, Lane::out}), Contains("in reads what out writes on the host"));
}

TEST(OrderingEdges, AWayInThatDoesNotWaitForAnothersWayOutOverwritesIt) {
  EXPECT_THAT(found({Lane::in, Lane::out}), Contains("in writes what out reads on the device"));
}

TEST(OrderingEdges, AnOpThatDoesNotWaitForTheWayInReadsWhatIsNotThereYet) {
  EXPECT_THAT(found({Lane::compute, Lane::in}), Contains("kernel reads what in writes on the device"));
}

// In a program whoever comes home is used, and the next way out waits for that use; what comes home in vain is not.
std::string reuse_a_place_below(bool leaks) {
  FakeDevice fake{testing::quick_card(), {.detect_races = true}};
  LeakyDevice device(fake, {Lane::out, Lane::in, leaks});
  const Bytes size = fake.facts().granule;
  fake.reserve(Tier::device, size * 3);
  EXPECT_TRUE(fake.try_commit(Tier::device, {0_B, size * 3}));
  Mover mover(device, {.host_limit = size, .file_limit = {}, .host_granule = {}});
  auto first = mover.try_move_out(0_B, size, {});
  (void)mover.move_in(*first, size, size);
  mover.forget(*first);
  try {
    EXPECT_TRUE(mover.try_move_out(size * 2, size, {}).has_value());
  } catch (const InvariantError& error) {
    return error.what();
  }
  return {};
}

TEST(OrderingEdges, APlaceBelowUsedAgainBeforeTheWayInHasEndedIsOverwritten) {
  EXPECT_EQ(reuse_a_place_below(/*leaks=*/false), "");
  EXPECT_THAT(reuse_a_place_below(/*leaks=*/true), ::testing::MatchesRegex("race: stream . writes host bytes .*, which reads them"));
}

}  // namespace
}  // namespace spillway
