#include "torch/region.h"

#include <vector>

namespace spillway {

namespace {

thread_local int depth = 0;
thread_local std::vector<Record*> pinned;

}  // namespace

bool in_region() { return depth > 0; }

void pin_in_region(Record* record) {
  if (depth == 0) return;
  ++record->pins;
  pinned.push_back(record);
}

void begin_region() { ++depth; }

void end_region(Engine& engine) {
  if (--depth > 0) return;
  const auto lock = engine.lock();
  for (Record* record : pinned) engine.unpin(record);
  pinned.clear();
}

}  // namespace spillway
