// A run whose first step goes by what a run before it left.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>

#include "plan/policies.h"
#include "unit/engine/engine_fixture.h"

namespace spillway {
namespace {

constexpr int kLayers = 16, kMade = 20;  // ops that make the model
constexpr Bytes kWeight = 4_KiB, kActivation = 100_KiB;
constexpr std::uint64_t kMakes = 1000, kForward = 2000, kBackward = 3000, kUpdates = 4000, kFirstUpdate = 5000;

EngineOptions planned(Bytes budget) {
  EngineOptions planned;
  planned.budget = budget;
  planned.address_space = 64_MiB;
  planned.granule = kGranule;
  planned.alignment = 64_B;
  planned.host_limit = 16_MiB;
  planned.policy = ReactivePolicy::lru;
  planned.leave = Leave::move;
  planned.plans = find_plan_policy("hybrid");
  planned.plans_at_once = true;
  planned.judges_plans = false;
  planned.plan_rounds = 1;
  planned.costs = {.out_nanos_per_byte = 0.01, .in_nanos_per_byte = 0.01, .out_price = 0.001, .in_price = 0.001, .per_copy = 1_us, .per_replay = 1_us};
  return planned;
}

// Makes a model, and trains it: layer by layer, back again, and an update, for which the first step makes something to keep.
class Training {
 public:
  Training(Bytes budget, const StepStore& store) : engine(device, owner, device.caller_stream(), planned(budget)) { engine.use_store(store); }

  void step() {
    if (steps_++ == 0) {
      for (std::uint64_t at = 0; at < kMade; ++at) weights_.push_back(&make(kMakes + at, Phase::unknown, kWeight, {}, at));
    }
    std::vector<Storage*> layers;
    for (std::uint64_t at = 0; at < kLayers; ++at) {
      layers.push_back(&make(kForward + at, Phase::forward, kActivation, {weights_[at], layers.empty() ? weights_[at] : layers.back()}, at));
    }
    for (std::uint64_t at = kLayers; at-- > 0;) {
      op(kBackward + at, Phase::backward, {layers[at], weights_[at]});
      same = same && std::all_of(layers[at]->data, layers[at]->data + kActivation.count, [&](std::byte byte) { return byte == std::byte(at); });
      end(*layers[at]);
    }
    if (steps_ == 1) (void)make(kFirstUpdate, Phase::optimizer, kWeight, {}, 0);
    op(kUpdates, Phase::optimizer, {weights_[0]});
    engine.end_step();
  }
  EngineStats train(int steps) {
    for (int left = steps; left > 0; --left) step();
    return engine.stats();
  }
  void train_and_expect_no_harm(int steps) {
    const EngineStats stats = train(steps);
    EXPECT_TRUE(same);
    EXPECT_EQ(stats.violations, 0);
    EXPECT_LE(stats.peak_reserved, stats.budget);
  }

  HostDevice device{HostOptions{.granule = kGranule}};
  TestOwner owner;
  Engine engine;
  bool same = true;  // every bit so far

 private:
  Storage& make(std::uint64_t key, Phase phase, Bytes size, const std::vector<Storage*>& from, std::uint64_t fill) {
    Storage& made = storages_.emplace_back();
    op(key, phase, from, &made, size, fill);
    return made;
  }

  void op(std::uint64_t key, Phase phase, const std::vector<Storage*>& from, Storage* made = nullptr, Bytes size = {}, std::uint64_t fill = 0) {
    std::vector<Use> uses;
    for (const Storage* one : from) {
      if (std::ranges::find(uses, one->record, &Use::record) == uses.end()) uses.push_back({one->record, false});
    }
    auto lock = engine.lock();
    if (engine.steers() || engine.wants_ops()) engine.steer_before({key, key}, phase, lock);
    ASSERT_FALSE(engine.acquire(uses, device.caller_stream(), lock).has_value());
    lock.unlock();
    if (made != nullptr) begin(*made, size, fill);
    lock.lock();
    if (engine.wants_ops()) tell(key, phase, uses, made, size);
    engine.release(uses);
    std::vector<Record*> outputs;
    if (made != nullptr) outputs.push_back(made->record);
    if (engine.steers()) engine.steer_after(uses, outputs, lock);
  }

  void begin(Storage& made, Bytes size, std::uint64_t fill) {
    made.record = engine.try_allocate(size, device.caller_stream());
    ASSERT_NE(made.record, nullptr);
    made.data = made.record->data;
    const auto lock = engine.lock();
    engine.adopt(made.record, &made);
    std::memset(made.data, static_cast<int>(fill), static_cast<std::size_t>(size.count));
  }

  void tell(std::uint64_t key, Phase phase, const std::vector<Use>& uses, const Storage* made, Bytes size) {
    std::vector<StorageId> inputs, outputs;
    for (const Use& use : uses) inputs.push_back(use.record->id);
    if (made != nullptr) outputs.push_back(made->record->id);
    engine.note_step_op({.name = "op", .phase = phase, .stream = device.caller_stream(), .start = {}, .duration = 50_us, .transient = size, .inputs = inputs, .outputs = outputs}, {key, key});
  }

  void end(Storage& storage) {
    if (storage.data != nullptr) EXPECT_TRUE(engine.free(storage.data));
    else engine.died(storage.record);
  }

  std::deque<Storage> storages_;
  std::vector<Storage*> weights_;
  int steps_ = 0;
};

class RecallTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  [[nodiscard]] StepStore store() const { return {folder.string(), "us"}; }
  [[nodiscard]] EngineStats first_step_in(Bytes budget) const { return Training(budget, store()).train(1); }
  void leave_a_plan() const { Training(kBudget, store()).train_and_expect_no_harm(8); }
  [[nodiscard]] std::filesystem::path file() const { return std::filesystem::directory_iterator(folder)->path(); }
  [[nodiscard]] StepKey key() const {
    unsigned long long begin = 0, whole = 0;
    EXPECT_EQ(std::sscanf(file().filename().string().c_str(), "%llx-%llx", &begin, &whole), 2);
    return {begin, whole};
  }
  // The kept plan becomes another, in a file that is sound.
  void edit(const std::function<void(KeptPlan&)>& change) const {
    KeptSteps kept = store().load(key());
    ASSERT_TRUE(kept.plan.has_value());
    change(*kept.plan);
    store().save(key(), kept);
  }

  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / ("recall_test_" + std::to_string(::getpid()));  // tests run side by side
};

TEST_F(RecallTest, AFirstStepGoesByThePlanOfTheRunBefore) {
  const EngineStats cold = first_step_in(kBudget);
  leave_a_plan();
  const EngineStats warm = first_step_in(kBudget);

  EXPECT_EQ(cold.first_planned_ops, 0);
  EXPECT_GT(cold.evictions, 0);
  EXPECT_FALSE(cold.warm_start);
  EXPECT_EQ(warm.first_planned_ops, 2 * kLayers + 1);  // all but what makes the model, and what the update keeps
  EXPECT_TRUE(warm.warm_start);
  EXPECT_EQ(warm.store_problem, "");
  EXPECT_EQ(warm.surprises, 0);  // nobody had to leave unasked
  EXPECT_GT(warm.evictions, 0);
}

TEST_F(RecallTest, TheStepsAfterItGoByPlansToo) {
  leave_a_plan();
  Training warm(kBudget, store());
  warm.train_and_expect_no_harm(6);

  EXPECT_EQ(warm.engine.stats().planned_steps, 5);  // the first made what its optimizer keeps
}

// What the optimizer does in a first step alone is no reason to record steps once more.
TEST_F(RecallTest, AStepThatLeftThePlanForItsOptimizerIsNotRecordedAnew) {
  leave_a_plan();
  Training warm(kBudget, store());
  warm.step();

  EXPECT_FALSE(warm.engine.wants_ops());
}

TEST_F(RecallTest, APlanForMoreMemoryThanThereIsIsNotTaken) {
  leave_a_plan();
  const EngineStats less = first_step_in(kBudget / 2);

  EXPECT_EQ(less.first_planned_ops, 0);
  EXPECT_TRUE(less.warm_start);  // its steps are planned for
}

TEST_F(RecallTest, APlanForMuchLessMemoryThanThereIsIsNotTaken) {
  leave_a_plan();
  const EngineStats more = first_step_in(4 * kBudget);

  EXPECT_EQ(more.first_planned_ops, 0);
  EXPECT_EQ(more.evictions, 0);
}

TEST_F(RecallTest, APlanOfAnotherPolicyIsNotTaken) {
  leave_a_plan();
  edit([](KeptPlan& plan) { plan.policy = "tensile"; });

  EXPECT_EQ(first_step_in(kBudget).first_planned_ops, 0);
}

TEST_F(RecallTest, ADamagedFileIsToldAndDoesNoHarm) {
  leave_a_plan();
  std::filesystem::resize_file(file(), std::filesystem::file_size(file()) - 5);
  Training warm(kBudget, store());
  warm.train_and_expect_no_harm(1);

  EXPECT_EQ(warm.engine.stats().first_planned_ops, 0);
  EXPECT_FALSE(warm.engine.stats().warm_start);
  EXPECT_NE(warm.engine.stats().store_problem.find("damaged or cut short"), std::string::npos);
}

TEST_F(RecallTest, APlanThatIsNoneForItsStepsIsToldAndNotUsed) {
  leave_a_plan();
  edit([](KeptPlan& plan) { plan.gaps.at(0).gap.storage += 1000; });
  const EngineStats warm = first_step_in(kBudget);

  EXPECT_EQ(warm.first_planned_ops, 0);
  EXPECT_FALSE(warm.warm_start);
  EXPECT_NE(warm.store_problem, "");
}

// Whatever a sound file says: the budget holds, no bit differs, and nothing is read beyond its end.
TEST_F(RecallTest, PlansThatSomebodyEditedAreHarmless) {
  leave_a_plan();
  const KeptSteps left = store().load(key());
  std::mt19937 dice(1);
  const auto below = [&](std::size_t most) { return static_cast<std::uint32_t>(dice() % most); };
  int followed = 0;
  for (int round = 0; round < 60; ++round) {
    store().save(key(), left);
    edit([&](KeptPlan& plan) {
      plan.limit = kBudget;
      plan.budget = kBudget - Bytes{16 * 1024 + below(60'000)};
      if (below(3) == 0) plan.gaps.erase(plan.gaps.begin() + below(plan.gaps.size() + 1), plan.gaps.end());
      for (PlannedGap& planned : plan.gaps) {
        planned.fetch_at = planned.gap.begin + below(planned.gap.end - planned.gap.begin + 1);
        planned.again = below(2) == 0;
        if (below(16) == 0) planned.gap.end = 1 + below(80);
        if (below(16) == 0) planned.remedy = Remedy::drop;
      }
      if (below(4) == 0) plan.entries[0].at = below(static_cast<std::uint32_t>(plan.entries.back().at) + 1);
      if (below(4) == 0) plan.entries.back().next = below(33);
    });
    Training warm(kBudget, store());
    warm.train_and_expect_no_harm(3);
    if (HasFailure()) return;
    followed += warm.engine.stats().first_planned_ops > 0 ? 1 : 0;
  }
  EXPECT_GT(followed, 5);  // otherwise this shows nothing
}

}  // namespace
}  // namespace spillway
