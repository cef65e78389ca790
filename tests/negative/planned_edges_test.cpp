// Every order between kernels and copies is needed in a step that goes by a plan, too: blocks taken at their places, ways in that
// begin before anybody waits, bytes kept beyond a death for a rebuild. As ordering_edges_test.cpp, which has the edges; waits
// are left out only after the plan has settled, so what is found is the planned path's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "negative/leaky_device.h"
#include "plan/policies.h"
#include "sim/card_times.h"
#include "unit/sim/sim_card.h"

namespace spillway {
namespace {

using testing::Lane;
using testing::Leak;
using testing::LeakyDevice;

constexpr int kLayers = 6;
constexpr int kSettlingSteps = 10, kLeakySteps = 3;
constexpr std::uint32_t kSeeds = 12;

struct Line {
  std::string name;
  std::vector<std::string> in, write;
  std::string out;
  Bytes size;
  Phase phase = Phase::forward;
  bool replayable = false;
  std::vector<std::string> dead;  // after it
};

// Where the link is narrow more is rebuilt, from what is kept for it; where it is wide more is moved.
struct Shape {
  Bytes budget;
  int large;  // so many times as large as others are those that can be rebuilt
  Nanos time;
};
constexpr Shape kNarrow{72_MiB, 4, 60_us}, kWide{56_MiB, 2, 300_us};

// Forward: an activation a layer; a gradient-like g, large, made of a small seed that dies at once. Backward reads both in
// reverse, and weights change at the end.
std::vector<Line> make_step(std::mt19937& dice, int large) {
  const auto name = [](const char* what, int i) { return what + std::to_string(i); };
  const auto size = [&] { return Bytes{2 << 20} * static_cast<int>(2 + dice() % 3); };
  std::vector<Line> step;
  for (int i = 0; i < kLayers; ++i) {
    const std::string before = i == 0 ? "x" : name("a", i - 1);
    step.push_back({.name = name("forward", i), .in = {before, name("w", i)}, .write = {}, .out = name("a", i), .size = size(), .dead = {}});
    step.push_back({.name = name("sow", i), .in = {name("a", i)}, .write = {}, .out = name("s", i), .size = 2_MiB, .dead = {}});
    step.push_back({.name = name("grow", i), .in = {name("s", i)}, .write = {}, .out = name("g", i), .size = size() * large, .replayable = true, .dead = {name("s", i)}});
  }
  for (int i = kLayers - 1; i >= 0; --i) {
    step.push_back({.name = name("backward", i), .in = {name("a", i), name("g", i), name("w", i)}, .write = {}, .out = name("d", i), .size = 2_MiB,
                    .phase = Phase::backward, .dead = {name("a", i), name("g", i)}});
  }
  for (int i = 0; i < kLayers; ++i) {
    step.push_back({.name = name("update", i), .in = {name("d", i)}, .write = {name("w", i), name("m", i)}, .out = {}, .size = {}, .phase = Phase::optimizer,
                    .dead = {name("d", i)}});
  }
  return step;
}

struct Remade final : Recipe {
  explicit Remade(const Line& of) : line(of) {}
  const Line& line;
};

// Plays the step again and again; storages are numbers, and what has left has no bytes.
class PlannedProgram final : public Owner {
 public:
  PlannedProgram(Leak leak, std::uint32_t seed)
      : dice_(seed), shape_(seed % 2 == 0 ? kWide : kNarrow), step_(make_step(dice_, shape_.large)), device_(fake_, leak),
        engine_(device_, *this, compute_, options(shape_.budget)) {
    device_.set_leaking(false);
  }
  ~PlannedProgram() override { dispose_of_recipes(); }
  PlannedProgram(const PlannedProgram&) = delete;
  PlannedProgram& operator=(const PlannedProgram&) = delete;

  // Empty when nobody came too early.
  std::string run() {
    try {
      make("x", 2_MiB);
      for (int i = 0; i < kLayers; ++i) {
        make("w" + std::to_string(i), 2_MiB);
        make("m" + std::to_string(i), 4_MiB);
      }
      for (int i = 0; i < kSettlingSteps; ++i) play_step();
      before_ = engine_.stats();
      device_.set_leaking(true);
      for (int i = 0; i < kLeakySteps; ++i) play_step();
      after_ = engine_.stats();
      return {};
    } catch (const InvariantError& error) {
      return device_.tell(error.what());
    }
  }

  // Of the steps in which waits may be left out.
  [[nodiscard]] const EngineStats& before() const { return before_; }
  [[nodiscard]] const EngineStats& after() const { return after_; }
  [[nodiscard]] int kept() const { return kept_; }
  // Leaves the waits out only where the way in goes to bytes that were kept beyond a storage's death, in this step.
  void leak_to_kept_only() {
    device_.set_only([this](Place to, Bytes size) {
      return to.tier == Tier::device && std::ranges::any_of(kept_at_, [&](const Range& range) {
        return range.begin < to.offset + size && to.offset < range.end;
      });
    });
  }

  void* weak(Record& record) override { return record.owner; }
  void* hold(void* weak) override { return weak; }
  void unhold(void*) override {}
  bool may_detach(Record&) override { return true; }
  void detach(Record&) override {}
  void attach(Record&) override {}
  void disown(Record& record) override { record.owner = nullptr; }
  void rebuild(Record& record) override {
    auto& recipe = static_cast<Remade&>(*record.recipes.front());
    std::vector<Use> uses;
    for (const Ingredient& ingredient : recipe.ingredients) uses.push_back({ingredient.record, false});
    auto lock = engine_.lock();
    ASSERT_FALSE(engine_.acquire(uses, compute_, lock).has_value());
    lock.unlock();
    Record* made = engine_.try_allocate(record.size, compute_, recipe.line.name.c_str());
    ASSERT_NE(made, nullptr);
    launch(uses, made);
    lock.lock();
    engine_.release(uses);
    const ReplayNote note{recipe.traced, fake_.now(), shape_.time};
    engine_.note_replay(nullptr, note);
    engine_.finish_rebuild(&record, made, {&note, 1});
  }

 private:
  static EngineOptions options(Bytes budget) {
    const Card card = testing::quick_card();
    EngineOptions options;
    options.budget = budget;
    options.address_space = 512_MiB;
    options.granule = 2_MiB;
    options.host_limit = 512_MiB;
    options.plans = find_plan_policy("hybrid");
    options.plans_at_once = true;
    options.plan_rounds = 0;
    options.costs = costs_of(card);
    options.move_nanos_per_byte = options.costs.out_nanos_per_byte + options.costs.in_nanos_per_byte;
    return options;
  }

  void make(const std::string& name, Bytes size) {
    Record* record = engine_.try_allocate(size, compute_);
    ASSERT_NE(record, nullptr);
    records_[name] = record;
    launch({}, record);
    const auto lock = engine_.lock();
    engine_.adopt(record, this);
  }

  void play_step() {
    kept_at_.clear();
    for (const Line& line : step_) play(line);
    engine_.end_step();
  }

  void play(const Line& line) {
    std::vector<Use> uses;
    for (const std::string& name : line.in) uses.push_back({records_.at(name), false});
    for (const std::string& name : line.write) uses.push_back({records_.at(name), true});
    const auto place = static_cast<std::uint64_t>(&line - step_.data()) + 1;
    auto lock = engine_.lock();
    engine_.steer_before({place, place}, line.phase, lock);
    ASSERT_FALSE(engine_.acquire(uses, compute_, lock).has_value()) << line.name;
    (void)engine_.begin_op();
    lock.unlock();
    Record* made = line.out.empty() ? nullptr : engine_.try_allocate(line.size, compute_, line.name.c_str());
    launch(uses, made);
    lock.lock();
    if (made != nullptr) {
      records_[line.out] = made;
      engine_.adopt(made, this);
    }
    tell(line, {place, place}, uses, made);
    keep_recipe(line, uses, made);
    engine_.end_op();
    engine_.release(uses);
    engine_.steer_after(uses, std::span(&made, made == nullptr ? 0u : 1u), lock);
    lock.unlock();
    for (const std::string& name : line.dead) bury(name);
    dispose_of_recipes();
  }

  void launch(const std::vector<Use>& uses, const Record* made) {
    std::vector<MemoryUse> touched;
    for (const Use& use : uses) touched.push_back({.place = {Tier::device, use.record->block.range.begin}, .size = use.record->size, .writes = use.write});
    if (made != nullptr) touched.push_back({.place = {Tier::device, made->block.range.begin}, .size = made->size, .writes = true});
    fake_.compute(compute_, shape_.time, touched);
  }

  void tell(const Line& line, OpKey key, const std::vector<Use>& uses, const Record* made) {
    if (!engine_.wants_ops()) return;
    std::vector<StorageId> in, mutated, out;
    for (const Use& use : uses) (use.write ? mutated : in).push_back(use.record->id);
    if (made != nullptr) out.push_back(made->id);
    engine_.note_step_op({.name = line.name, .phase = line.phase, .stream = compute_, .start = fake_.now(), .duration = shape_.time,
                          .transient = engine_.peak_in_op(), .lean = {}, .replayable = line.replayable, .why_not = {}, .inputs = in, .outputs = out,
                          .mutated = mutated, .aliased = {}}, key);
  }

  void keep_recipe(const Line& line, const std::vector<Use>& uses, Record* made) {
    for (const Use& use : uses) {
      if (use.write) engine_.clear_recipes(use.record);
    }
    if (!line.replayable || !engine_.wants_recipes()) return;
    auto recipe = std::make_unique<Remade>(line);
    for (const Use& use : uses) recipe->ingredients.push_back({use.record, use.record->epoch});
    recipe->time = shape_.time;
    recipe->step = engine_.step();
    recipe->outputs = {made};
    engine_.set_recipe(made, recipe.release());
  }

  void bury(const std::string& name) {
    Record* record = records_.at(name);
    records_.erase(name);
    if (record->outlives) {
      ++kept_;
      kept_at_.push_back(Range{record->block.range.begin, record->block.range.begin + record->size});
    }
    if (record->residence == Residence::resident) (void)engine_.free(record->data);
    else engine_.died(record);
  }

  void dispose_of_recipes() {
    std::vector<Recipe*> dying;
    {
      const auto lock = engine_.lock();
      engine_.take_dying(dying);
    }
    for (const Recipe* recipe : dying) delete recipe;
  }

  std::mt19937 dice_;
  const Shape shape_;
  const std::vector<Line> step_;
  FakeDevice fake_{testing::quick_card(), {.detect_races = true}};
  StreamId compute_ = fake_.open_stream();
  LeakyDevice device_;
  Engine engine_;
  std::map<std::string, Record*> records_;
  std::vector<Range> kept_at_;
  int kept_ = 0;
  EngineStats before_, after_;
};

std::set<std::string> found(Leak leak) {
  std::set<std::string> races;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    if (std::string race = PlannedProgram(leak, seed).run(); !race.empty()) races.insert(std::move(race));
  }
  return races;
}

using ::testing::Contains;
using ::testing::StartsWith;

TEST(PlannedEdges, WithAllOfThemNobodyComesTooEarlyInStepsThatGoByTheirPlan) {
  std::int64_t planned = 0, placed = 0, misplaced = 0;
  Bytes fetched;
  int kept = 0;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    PlannedProgram program({.leaks = false}, seed);
    EXPECT_EQ(program.run(), "") << seed;
    const EngineStats &before = program.before(), &after = program.after();
    EXPECT_EQ(after.violations, 0) << seed;
    planned += after.planned_steps - before.planned_steps;
    placed += after.placed_steps - before.placed_steps;
    misplaced += after.misplaced - before.misplaced;
    fetched += after.moved_in - before.moved_in;
    kept += program.kept();
  }
  EXPECT_EQ(planned, kLeakySteps * kSeeds);
  EXPECT_GT(placed, planned / 2);
  EXPECT_LT(misplaced, placed);
  EXPECT_GT(fetched, 0_B);
  EXPECT_GT(kept, static_cast<int>(kSeeds));
}

TEST(PlannedEdges, AWayOutThatDoesNotWaitForTheLastUseCopiesTooEarly) {
  EXPECT_THAT(found({Lane::out, Lane::compute}), Contains("out reads what kernel writes on the device"));
}

TEST(PlannedEdges, APlaceTakenBeforeTheWayOutHasEndedIsOverwritten) {
  EXPECT_THAT(found({Lane::compute, Lane::out}), Contains("kernel writes what out reads on the device"));
}

TEST(PlannedEdges, AWayInAheadOfNeedThatDoesNotWaitForItsPlacesLastUseOverwritesIt) {
  EXPECT_THAT(found({Lane::in, Lane::compute}), Contains(StartsWith("in writes what kernel ")));
}

TEST(PlannedEdges, AWayInAheadOfNeedThatDoesNotWaitForWaysOutReadsWhatIsNotThereYetAndOverwritesWhatIs) {
  const std::set<std::string> races = found({Lane::in, Lane::out});
  EXPECT_THAT(races, Contains("in reads what out writes on the host"));
  EXPECT_THAT(races, Contains("in writes what out reads on the device"));
}

TEST(PlannedEdges, AnOpThatDoesNotWaitForAWayInBegunAheadReadsWhatIsNotThereYet) {
  EXPECT_THAT(found({Lane::compute, Lane::in}), Contains("kernel reads what in writes on the device"));
}

// Small storages die, and their bytes stay for a rebuild; who comes into their place waits for that.
TEST(PlannedEdges, WhatIsKeptBeyondADeathIsNotOverwrittenBeforeItsLastUse) {
  std::set<std::string> races;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    PlannedProgram program({Lane::in, Lane::compute}, seed);
    program.leak_to_kept_only();
    if (std::string race = program.run(); !race.empty()) races.insert(std::move(race));
  }
  EXPECT_THAT(races, Contains("in writes what kernel reads on the device"));
}

}  // namespace
}  // namespace spillway
