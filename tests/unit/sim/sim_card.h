// An H200 whose host costs nothing: what is left are kernels, copies and what they wait for.
#pragma once

#include <string>

#include "device/fake/card.h"
#include "trace/recorded_step.h"

namespace spillway::testing {

inline Card quick_card() {
  Card card = find_card("h200");
  card.launch = card.event = 0_ns;
  return card;
}

inline Trace recorded(const std::string& model) { return import_recorded_step(SPILLWAY_SOURCE_DIR "/traces/" + model + ".json.gz"); }

}  // namespace spillway::testing
