// How a storage's bytes can be made again: one operator that ran, kept as facts only.
//
// The engine sees the ingredients (which records, at which epoch) and the cost; the adapter's subclass knows the operator
// and its arguments. A recipe never keeps a tensor or a storage alive; it keeps records, which are small.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace spillway {

struct Record;

struct Ingredient {
  static constexpr std::uint32_t kUntrusted = UINT32_MAX;  // an epoch that never is

  Record* record = nullptr;
  std::uint32_t epoch = 0;
};

// Note [Lean rebuilds]
// Some results can be made again from what the op read and from its other results, cheaper than by running it: a batch norm
// from the statistics it saved, a dropout from its mask. These sides are a help, not a need: whatever was dropped can
// still be rebuilt by running the op, so a side that has died, changed or was dropped itself costs time and nothing else.
// They are named by their place among the outputs, which forget a record before it ends.
struct Side {
  std::uint16_t output = 0;
  std::uint32_t epoch = 0;
};

class Recipe {
 public:
  virtual ~Recipe() = default;

  std::vector<Ingredient> ingredients;  // what it reads, without the record it rebuilds in place
  std::vector<Record*> outputs;         // by position among the operator's results; null once that record is gone
  std::vector<Side> sides;              // with these the first output has a lean rebuild; empty: it has none
  Nanos time;                           // measured when it ran
  Nanos lean_time;
  bool rides = false;                   // in place: made again in one pass with the recipes before it, in lean_time more
  bool straight = false;                // made again in lean_time, in one pass, from what its first ingredient, which is dead, was made of
  std::uint64_t step = 0;
  OpIndex traced;                       // the op that ran, where a trace is written
  std::uint32_t refs = 0;
};

}  // namespace spillway
