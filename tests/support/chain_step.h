// A step in which a storage is wanted for another's rebuild long before its own time.
#pragma once

#include "support/step_maker.h"

namespace spillway::testing {

// x makes a, a makes b, both lie idle while c takes all; then b is wanted beside d, and a only after that. Too short for the link.
inline Trace chain_step() {
  StepMaker maker;
  maker.birth("x", 1_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    maker.birth("a", 32_MiB);
    maker.op("first", {.in = {"x"}, .out = {"a"}, .takes = 5_us});
    maker.birth("b", 32_MiB);
    maker.op("second", {.in = {"a"}, .out = {"b"}, .takes = 6_us});
    maker.birth("c", 80_MiB);
    maker.op("third", {.in = {"x"}, .out = {"c"}, .takes = 20_us});
    maker.death("c");
    maker.birth("d", 50_MiB);
    maker.op("wants b", {.in = {"b"}, .out = {"d"}, .takes = 20_us});
    maker.death("b");
    maker.death("d");
    maker.op("wants a", {.in = {"a"}, .takes = 1_us});
    maker.death("a");
    maker.end();
  }
  return maker.trace();
}

}  // namespace spillway::testing
