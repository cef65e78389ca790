#include "torch/region.h"

#include <vector>

namespace spillway {

namespace {

thread_local std::vector<Record*> kept;

}  // namespace

thread_local int region_depth = 0;

void keep_in_region(Engine& engine, Record* record) {
  if (region_depth == 0) return;
  engine.keep(record);
  kept.push_back(record);
}

void begin_region(Engine& engine) {
  if (region_depth++ > 0) return;
  const auto lock = engine.lock();
  engine.begin_region();
}

void end_region(Engine& engine) {
  if (--region_depth > 0) return;
  const auto lock = engine.lock();
  engine.end_region(kept);
  kept.clear();
}

}  // namespace spillway
