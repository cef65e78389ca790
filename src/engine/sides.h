// What a lean rebuild of a record reads beside the op's arguments, as long as this lives: nobody frees or changes it meanwhile.
//
// Empty: the op itself is run. Takes the engine's lock itself.
#pragma once

#include <vector>

#include "engine/engine.h"

namespace spillway {

class Sides {
 public:
  Sides(Engine& engine, const Recipe& recipe, const Record& wanted) : engine_(engine) {
    const auto lock = engine_.lock();
    records_ = engine_.borrow_sides(recipe, wanted);
  }
  ~Sides() {
    if (records_.empty()) return;
    const auto lock = engine_.lock();
    engine_.return_sides(records_);
  }
  Sides(const Sides&) = delete;
  Sides& operator=(const Sides&) = delete;

  [[nodiscard]] const std::vector<Record*>& records() const { return records_; }

 private:
  Engine& engine_;
  std::vector<Record*> records_;
};

}  // namespace spillway
