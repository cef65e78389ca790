// Whether the settled steps of a script still take what they took: a card slows down when it gets hot, or somebody else works on it.
//
// A look is one step, timed on the device between two of its ticks, which nobody waits for. One that is off is looked at again at once,
// since anything may have happened in it; two in a row are a drift. Whoever drifts for ever is looked at ever more seldom.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/tick.h"
#include "base/units.h"

namespace spillway {

class Drift {
 public:
  // At the end of a step that went as planned, where these take `settled`. `mark()`: a tick of the device that has a time;
  // `find_time(from, to)`: what lies between two of them, none as long as that is not over, zero where it cannot be told.
  template <class Mark, class FindTime>
  [[nodiscard]] bool note_step(Nanos settled, Mark mark, FindTime find_time) {
    ++steps_;
    if (steps_ == pause_) begin_ = mark();
    if (steps_ == pause_ + 1) end_ = mark();
    if (steps_ <= pause_) return false;
    const std::optional<Nanos> took = find_time(begin_, end_);
    if (!took) return false;
    const bool off = *took > 0_ns && std::abs((*took - settled).count) > settled.count / kParts;
    looks_off_ = off ? looks_off_ + 1 : 0;
    steps_ = off ? pause_ - 1 : 0;
    if (looks_off_ < kMostOff) return false;
    begin_anew();
    pause_ = std::min(pause_ * 2, kLongestPause);
    return true;
  }
  // The next step is another's, or did not go as planned.
  void begin_anew() { steps_ = looks_off_ = 0; }

 private:
  static constexpr int kPause = 64, kLongestPause = 4096;  // steps from one look to the next
  static constexpr int kMostOff = 2;
  static constexpr std::int64_t kParts = 10;  // of a step's time: less is noise, or the link's

  int pause_ = kPause, steps_ = 0, looks_off_ = 0;
  Tick begin_, end_;
};

}  // namespace spillway
