// Whether steps repeat and everybody stays at home in them: then nobody will be dropped, as far as anybody can tell.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace spillway {

class Calm {
 public:
  // How many ops and storages there were so far, and the bytes of all storages.
  struct Count {
    std::uint64_t ops = 0, storages = 0;
    Bytes asked;
  };

  void end_step(bool nobody_left, const Count& now) {
    const Count step{now.ops - before_.ops, now.storages - before_.storages, now.asked - before_.asked};
    const bool alike = step.ops == step_.ops && step.storages == step_.storages && step.asked == step_.asked;
    steps_ = nobody_left ? (alike ? steps_ + 1 : 1) : 0;
    before_ = now;
    step_ = step;
  }
  [[nodiscard]] bool lasts() const { return steps_ >= kSteps; }

 private:
  static constexpr int kSteps = 3;  // what an optimizer makes at its first step shows in the second
  Count before_, step_;
  int steps_ = 0;
};

}  // namespace spillway
