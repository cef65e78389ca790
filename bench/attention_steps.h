// Steps of a model with attention, for what a size never seen costs: layers of five ops forward and five backward.
#pragma once

#include <span>
#include <string>

#include "support/step_maker.h"

namespace spillway {

// One step for each length, of this many ops; every activation has a gap. `jump`: by how much a value is larger at most, in no way
// a matter of the length, and in every layer by another part of it: no two layers are alike, and no polynomial explains them.
inline Trace make_attention_steps(std::int64_t ops, std::span<const std::int64_t> lengths, std::int64_t jump = 0) {
  testing::StepMaker steps;
  steps.birth("weights", 4_MiB, StorageKind::parameter);
  for (const std::int64_t length : lengths) {
    steps.begin();
    steps.birth("ids", Bytes{8 * 16 * length}, StorageKind::input);
    std::string last = "ids";
    const auto name = [](const char* what, std::int64_t layer) { return what + std::to_string(layer); };
    for (std::int64_t layer = 0; layer < ops / 10; ++layer) {
      for (const char* what : {"query", "key"}) steps.make(name(what, layer), Bytes{4096 * length}, {last, "weights"});
      steps.make(name("value", layer), Bytes{4096 * length + jump * ((length * 7919 + layer * 104'729) % 1009) / 1009}, {last, "weights"});
      steps.make(name("scores", layer), Bytes{768 * length * length}, {name("query", layer), name("key", layer)});
      steps.make(name("hidden", layer), Bytes{4096 * length}, {name("scores", layer), name("value", layer)});
      last = name("hidden", layer);
    }
    for (std::int64_t layer = ops / 10; layer-- > 0;) {
      for (const char* what : {"hidden", "scores", "value", "key", "query"}) {
        steps.op("back", {.in = {name(what, layer), "weights"}, .workspace = Bytes{512 * length}});
        steps.death(name(what, layer));
      }
    }
    steps.death("ids");
    steps.end();
  }
  return steps.trace();
}

}  // namespace spillway
