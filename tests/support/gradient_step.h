// A step in which a large storage could be made again of small ones that die before it is idle.
#pragma once

#include "support/step_maker.h"

namespace spillway::testing {

// x and d, of which nobody can make the like, make h, and h makes g; all three are dead when c takes all, and then g is wanted.
// Too short for the link.
inline Trace gradient_step() {
  StepMaker maker;
  maker.birth("input", 1_MiB, StorageKind::input);
  for (int step = 0; step < 2; ++step) {
    maker.begin();
    for (const char* small : {"x", "d"}) {
      maker.birth(small, 1_MiB);
      maker.op("small", {.in = {"input"}, .out = {small}, .takes = 5_us, .replayable = false});
    }
    maker.birth("h", 5_MiB);
    maker.op("product", {.in = {"x", "d"}, .out = {"h"}, .takes = 5_us});
    maker.death("x");
    maker.death("d");
    maker.birth("g", 64_MiB);
    maker.op("cast", {.in = {"h"}, .out = {"g"}, .takes = 6_us});
    maker.death("h");
    maker.birth("c", 80_MiB);
    maker.op("third", {.in = {"input"}, .out = {"c"}, .takes = 20_us});
    maker.death("c");
    maker.op("wants g", {.in = {"g"}, .takes = 1_us});
    maker.death("g");
    maker.op("after", {.in = {"input"}, .takes = 1_us});
    maker.end();
  }
  return maker.trace();
}

}  // namespace spillway::testing
