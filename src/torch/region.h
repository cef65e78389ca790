// A stretch of a thread's work whose kernels are out of our sight (a compiled graph, a constructor that reads pointers):
// whatever its visible ops read, write or make stays until it ends, and nothing is rebuilt by running one of them again,
// since the kernels between them may have written over what it read or made.
#pragma once

#include "engine/engine.h"

namespace spillway {

// How many of them this thread is in.
extern thread_local int region_depth __attribute__((tls_model("initial-exec")));
[[nodiscard]] inline bool in_region() { return region_depth > 0; }
// With the lock, inside a region: the record stays resident until the region ends.
void keep_in_region(Engine& engine, Record* record);
void begin_region(Engine& engine);
void end_region(Engine& engine);

}  // namespace spillway
