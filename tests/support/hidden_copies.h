// Steps in which the link has time for all that must leave: no op need ever wait for a copy.
#pragma once

#include <string>

#include "support/step_maker.h"

namespace spillway::testing {

inline constexpr int kLayers = 4;
inline constexpr Bytes kState = 16_MiB * 2 * kLayers;  // both moments of all layers

// A network under Adam, whose moments nobody touches from one update to the next. The weights are small beside them, and what is
// large for a moment, in the middle, is read at once: of those who could leave for it only the moments are long enough idle.
//
//   forward, 4 x 5 ms │ large, 5 ms │ loss │ backward, 4 x 5 ms │ update, 4 x 1 ms
inline Trace adam_step() {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  const auto name = [](const char* what, int layer) { return what + std::to_string(layer); };
  for (int i = 0; i < kLayers; ++i) {
    maker.birth(name("w", i), 2_MiB, StorageKind::parameter);
    maker.birth(name("m", i), 16_MiB, StorageKind::optimizer_state);
    maker.birth(name("v", i), 16_MiB, StorageKind::optimizer_state);
  }
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    for (int i = 0; i < kLayers; ++i) maker.op("forward", {.in = {"x", name("w", i)}, .takes = 5_ms});
    maker.birth("large", kState);
    maker.op("large", {.in = {"x"}, .out = {"large"}, .takes = 5_ms, .replayable = false});
    maker.op("loss", {.in = {"large"}, .takes = 1_ms, .replayable = false});
    maker.death("large");
    for (int i = kLayers - 1; i >= 0; --i) {
      maker.birth(name("g", i), 2_MiB, StorageKind::gradient);
      maker.op("backward", {.in = {"x", name("w", i)}, .out = {name("g", i)}, .takes = 5_ms, .replayable = false, .phase = Phase::backward});
    }
    for (int i = 0; i < kLayers; ++i) {
      maker.op("update", {.in = {name("g", i)}, .write = {name("w", i), name("m", i), name("v", i)}, .takes = 1_ms, .replayable = false, .phase = Phase::optimizer});
      maker.death(name("g", i));
    }
    maker.end();
  }
  return maker.trace();
}

// a, of which nobody can make the like, makes b; both lie idle while c takes all. Then b is wanted, and a only long after that: a
// has to be home for b's rebuild.
inline Trace rebuild_from_moved() {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("a", 32_MiB);
    maker.op("first", {.in = {"x"}, .out = {"a"}, .takes = 5_ms, .replayable = false});
    maker.birth("b", 64_MiB);
    maker.op("second", {.in = {"a"}, .out = {"b"}, .takes = 5_us});
    maker.op("idle", {.in = {"x"}, .takes = 1_ms});
    maker.birth("c", 96_MiB);
    maker.op("third", {.in = {"x"}, .out = {"c"}, .takes = 5_us, .replayable = false});
    maker.death("c");
    maker.op("between", {.in = {"x"}, .takes = 1_ms});
    maker.op("wants b", {.in = {"b"}, .takes = 5_us});
    maker.death("b");
    maker.op("long after", {.in = {"x"}, .takes = 5_ms});
    maker.op("wants a", {.in = {"a"}, .takes = 5_us});
    maker.death("a");
    maker.end();
  }
  return maker.trace();
}

}  // namespace spillway::testing
