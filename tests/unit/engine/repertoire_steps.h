// Steps of one length each, as a repertoire is told of them, and what the engine asks it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "engine/repertoire.h"
#include "liveness/curve.h"
#include "support/step_maker.h"

namespace spillway {

// embed: ids -> hidden; attend: hidden -> scores; back: both.
inline void add_step(testing::StepMaker& maker, std::int64_t length) {
  maker.begin();
  maker.birth("ids", Bytes{8 * length}, StorageKind::input);
  maker.make("hidden", Bytes{1024 * length}, {"ids", "weights"});
  maker.make("scores", Bytes{64 * length * length}, {"hidden"});
  maker.op("back", {.in = {"hidden", "scores"}, .write = {"weights"}});
  for (const char* name : {"scores", "hidden", "ids"}) maker.death(name);
  maker.end();
}

inline std::shared_ptr<const RecordedSteps> recorded(std::int64_t length) {
  testing::StepMaker maker;
  maker.birth("weights", 1_MiB, StorageKind::parameter);
  add_step(maker, length);
  add_step(maker, length);
  RecordedSteps steps{.trace = maker.trace(), .keys = {1, 2, 3}, .shapes = {11, 12, 13}, .lean = {}};
  return std::make_shared<const RecordedSteps>(std::move(steps));
}

inline Bytes peak_of(const RecordedSteps& steps) { return live_curve(Liveness(steps.trace, *find_step(steps.trace, StepRecorder::kStep))).peak; }

// As the engine goes about it.
inline std::optional<Repertoire::Wanted> next_wanted(Repertoire& repertoire, Bytes room) {
  while (auto order = repertoire.next_order()) {
    auto wanted = Repertoire::foresee(std::move(*order));
    if (wanted && repertoire.begin_script(*wanted, room)) return wanted;
  }
  return std::nullopt;
}

inline std::shared_ptr<const Script> script_for(const Repertoire::Wanted& wanted) {
  return std::make_shared<const Script>(*wanted.order.steps, *wanted.step, Plan{}, 1_GiB, nullptr, std::vector<OpPlace>{}, /*any_size=*/true);
}

inline constexpr Bytes kNoRoom = 1_B;

// Until it watches no longer: the first op shows the length.
inline std::shared_ptr<const Script> find(Repertoire& repertoire, std::int64_t length, Bytes room = kNoRoom) {
  repertoire.begin_step();
  repertoire.op(11, {{{Bytes{8 * length}, 1_MiB}, {}, {Bytes{1024 * length}}}});
  EXPECT_FALSE(repertoire.watches());
  EXPECT_EQ(repertoire.ops_seen(), 1u);
  return repertoire.find_script(room).script;
}

// Begins like the others and goes another way after its first op.
inline std::shared_ptr<const RecordedSteps> odd_one(std::int64_t length) {
  RecordedSteps steps = *recorded(length);
  steps.shapes = {11, 12, 99};
  return std::make_shared<const RecordedSteps>(std::move(steps));
}

}  // namespace spillway
