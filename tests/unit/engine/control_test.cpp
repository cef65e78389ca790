// Traces that begin when storages live already, some of them away.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "trace/check.h"
#include "trace/reader.h"
#include "unit/engine/engine_fixture.h"

namespace spillway {
namespace {

class LateTrace : public EngineTest {
 protected:
  ~LateTrace() override { std::filesystem::remove(path); }

  void open() {
    const auto lock = engine.lock();
    engine.open_trace(path);
  }

  // What was written, found lawful.
  Trace close() {
    {
      const auto lock = engine.lock();
      engine.tape().close();
    }
    Trace trace = read_trace(path);
    for (const TraceProblem& problem : check_trace(trace, 5)) ADD_FAILURE() << problem.event << ": " << problem.what;
    return trace;
  }

  template <class E>
  static std::vector<E> all(const Trace& trace) {
    std::vector<E> found;
    for (const Event& event : trace.events) {
      if (const auto* one = std::get_if<E>(&event)) found.push_back(*one);
    }
    return found;
  }

  void read_in_an_op(const Storage& storage) {
    const auto lock = engine.lock();
    const std::array read{storage.record->id};
    engine.tape().op({.name = "aten::sum", .start = device.now(), .inputs = read, .outputs = {}, .mutated = {}, .aliased = {}});
  }

  void rebuild_from_nothing() {
    owner.rebuild_now = [&](Record& record) {
      Record* fresh = engine.try_allocate(record.size, device.caller_stream());
      const auto lock = engine.lock();
      const std::array replays{ReplayNote{.op = record.recipes[0]->traced, .start = device.now(), .took = 1_us}};
      engine.finish_rebuild(&record, fresh, replays);
    };
  }

  void forget_recipes(const Storage& storage) {
    const auto lock = engine.lock();
    engine.clear_recipes(storage.record);
    std::vector<Recipe*> dying;
    engine.take_dying(dying);
  }

  std::string path = testing::TempDir() + "late_trace_" + std::to_string(::getpid()) + ".spt";
};

TEST_F(LateTrace, TellsWhoLivesAlreadyAsBornBeforeTheFirstStep) {
  Storage& first = make(64_KiB, 1);
  Storage& gone = make(64_KiB, 2);
  ASSERT_TRUE(engine.free(gone.data));
  Storage& second = make(128_KiB, 3);
  open();
  read_in_an_op(second);
  ASSERT_TRUE(engine.free(first.data));

  const Trace trace = close();

  const auto births = all<StorageBirth>(trace);
  ASSERT_EQ(births.size(), 2u);
  EXPECT_EQ(births[0].size, 64_KiB);
  EXPECT_EQ(births[1].size, 128_KiB);
  EXPECT_THAT(all<Op>(trace).at(0).inputs, testing::ElementsAre(births[1].storage));
  EXPECT_EQ(all<StorageDeath>(trace).at(0).storage, births[0].storage);
  const auto is_a = [&]<class E>(std::in_place_type_t<E>) {
    return std::ranges::find_if(trace.events, [](const Event& event) { return std::holds_alternative<E>(event); });
  };
  EXPECT_LT(is_a(std::in_place_type<StorageBirth>), is_a(std::in_place_type<StepBegin>));
}

TEST_F(LateTrace, TellsWhereTheBytesOfThoseAre) {
  Storage& source = make(64_KiB, 1);
  Storage& made = make(128_KiB, 2);
  Recipe recipe;
  recipe.traced = OpIndex{7};  // of a trace before this one
  drop(made, source, recipe);
  Storage& here = make(256_KiB, 3);
  ASSERT_EQ(source.record->residence, Residence::away);
  ASSERT_EQ(made.record->residence, Residence::dropped);
  rebuild_from_nothing();

  open();
  use(source);
  use(made);
  const Trace trace = close();

  const auto births = all<StorageBirth>(trace);
  ASSERT_EQ(births.size(), 4u);  // the last: what the rebuild made
  EXPECT_EQ(births[0].tier, TraceTier::host);
  EXPECT_EQ(births[1].tier, TraceTier::nowhere);
  EXPECT_EQ(births[2].tier, TraceTier::device);
  EXPECT_EQ(all<Move>(trace).at(0).storage, births[0].storage);
  const auto rebuilds = all<Recompute>(trace);
  ASSERT_EQ(rebuilds.size(), 1u);
  EXPECT_EQ(rebuilds[0].storage, births[1].storage);
  EXPECT_FALSE(rebuilds[0].replayed.valid());
  EXPECT_TRUE(holds(here, 256_KiB, 3));
  forget_recipes(made);
}

TEST_F(LateTrace, IsAsLawfulWhenItIsNotTheFirst) {
  Storage& kept = make(64_KiB, 1);
  open();
  Storage& passing = make(64_KiB, 2);
  (void)close();
  ASSERT_TRUE(engine.free(passing.data));

  open();
  Storage& late = make(128_KiB, 3);
  read_in_an_op(late);
  ASSERT_TRUE(engine.free(kept.data));
  const Trace trace = close();

  const auto births = all<StorageBirth>(trace);
  ASSERT_EQ(births.size(), 2u);
  EXPECT_EQ(births[1].size, 128_KiB);
  EXPECT_THAT(all<Op>(trace).at(0).inputs, testing::ElementsAre(births[1].storage));
}

}  // namespace
}  // namespace spillway
