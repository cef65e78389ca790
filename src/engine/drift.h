// Whether the settled steps of a script still take what they took: a card slows down when it gets hot, or somebody else works on it.
//
// Told by the host's clock, which nobody waits for: the host runs ahead of the device by some steps at most, which makes little
// difference in many. The first window of steps is what the others are measured by, pauses that come in every window included. A
// pause makes one window long; several in a row that are off are a drift. Whoever drifts for ever is believed ever later.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/units.h"

namespace spillway {

class Drift {
 public:
  // At the end of a settled step that went as planned.
  [[nodiscard]] bool note_step(Nanos now) {
    if (steps_++ % kWindow != 0) return false;
    const Nanos took{(now - std::exchange(began_, now)).count / kWindow};
    if (steps_ == 1) return false;
    if (usual_ == 0_ns) usual_ = took;
    windows_off_ = std::abs((took - usual_).count) > usual_.count / kParts ? windows_off_ + 1 : 0;
    if (windows_off_ < patience_) return false;
    patience_ = std::min(patience_ * 2, kMostPatience);
    begin_script();
    return true;
  }
  // This step did not go as planned.
  void begin_anew() { steps_ = windows_off_ = 0; }
  // The next step is another's.
  void begin_script() {
    begin_anew();
    usual_ = 0_ns;
  }

 private:
  static constexpr int kWindow = 16;  // steps
  static constexpr int kPatience = 4, kMostPatience = 256;  // windows
  static constexpr std::int64_t kParts = 10;  // of a step's time: less is noise, or the link's

  int steps_ = 0, windows_off_ = 0, patience_ = kPatience;
  Nanos began_, usual_;
};

}  // namespace spillway
