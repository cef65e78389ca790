// A stretch of a thread's work whose kernels are out of our sight (a compiled graph, a constructor that reads pointers):
// whatever its visible ops touch stays until it ends.
#pragma once

#include "engine/engine.h"

namespace spillway {

[[nodiscard]] bool in_region();
// With the lock, inside a region: the record stays resident until the region ends.
void pin_in_region(Record* record);
void begin_region();
void end_region(Engine& engine);

}  // namespace spillway
