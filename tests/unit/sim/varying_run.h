// A run whose steps change their size, on the simulated card: layers that each keep one activation for the backward pass.
//
//   op          0      1     ...    n-1    n     ...   2n-1
//   activation  0 made .            .      .           read
//               1      made         .      .     read
#pragma once

#include <map>
#include <string>

#include "liveness/curve.h"
#include "sim/player.h"
#include "sim/simulate.h"
#include "support/step_maker.h"
#include "unit/sim/sim_card.h"

namespace spillway::testing {

class VaryingRun {
 public:
  static constexpr int kLayers = 160;  // more ops than the host runs ahead by

  static SimOptions sim_options(Bytes budget) { return {.card = quick_card(), .budget = budget, .policy = "hybrid"}; }

  explicit VaryingRun(const EngineOptions& options) : device_(quick_card()), size_(size_of(kFirst)), player_(device_, options, size_.score, size_.step) {}
  explicit VaryingRun(Bytes budget) : VaryingRun(engine_options(sim_options(budget))) {}

  // A step of this length; what it added to the counts.
  EngineStats play(std::int64_t length) {
    const Size& next = size_of(length);
    size_.score = next.score;
    size_.step = next.step;
    const EngineStats before = stats();
    player_.engine().reset_recent_peaks();
    player_.play_step();
    EngineStats now = stats();
    now.planned_steps -= before.planned_steps;
    now.surprises -= before.surprises;
    now.foreseen_steps -= before.foreseen_steps;
    now.reused_plans -= before.reused_plans;
    now.extended_plans -= before.extended_plans;
    now.evictions -= before.evictions;
    now.moved_out -= before.moved_out;
    now.planning -= before.planning;
    return now;
  }

  // Until sizes are known to change and each of these was planned for.
  void learn(std::initializer_list<std::int64_t> lengths, int times = 8) {
    for (int i = 0; i < times; ++i) {
      for (const std::int64_t length : lengths) (void)play(length);
    }
  }

  static Bytes peak_of(std::int64_t length) { return live_curve(size_of(length).step).peak; }

  [[nodiscard]] EngineStats stats() { return player_.engine().stats(); }
  [[nodiscard]] Engine& engine() { return player_.engine(); }
  [[nodiscard]] FakeDevice& device() { return device_; }
  [[nodiscard]] Player& player() { return player_; }

 private:
  static constexpr std::int64_t kFirst = 100;

  struct Size {
    Score score;
    Liveness step;
  };

  // Kept for good: scores name what their traces hold.
  static const Size& size_of(std::int64_t length) {
    static std::map<std::int64_t, std::pair<Trace, Size>> all;
    if (const auto known = all.find(length); known != all.end()) return known->second.second;
    const Trace trace = make_trace(length);
    const WholeStep whole = *find_steady_step(trace);
    const Liveness step(trace, whole);
    auto& made = all.emplace(length, std::pair(trace, Size{.score = {}, .step = step})).first->second;
    made.second.score = read_score(made.first, whole, step);
    return made.second;
  }

  static Trace make_trace(std::int64_t length) {
    StepMaker maker;
    maker.birth("weights", 4_MiB, StorageKind::parameter);
    const auto name = [](int layer) { return layer < 0 ? std::string("ids") : "a" + std::to_string(layer); };
    for (int step = 0; step < 2; ++step) {
      maker.begin();
      maker.birth("ids", Bytes{8 * length}, StorageKind::input);
      for (int layer = 0; layer < kLayers; ++layer) {
        maker.birth(name(layer), 32_KiB * length);
        maker.op("make", {.in = {name(layer - 1), "weights"}, .out = {name(layer)}, .takes = 2_us * length});
      }
      for (int layer = kLayers; layer-- > 0;) {
        maker.op("back", {.in = {name(layer), "weights"}, .takes = 4_us * length, .phase = Phase::backward});
        maker.death(name(layer));
      }
      maker.op("update", {.write = {"weights"}, .takes = 100_us, .replayable = false, .phase = Phase::optimizer});
      maker.death("ids");
      maker.end();
    }
    return maker.trace();
  }

  FakeDevice device_;
  Size size_;
  Player player_;
};

}  // namespace spillway::testing
