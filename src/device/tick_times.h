// When the newest ticks of one stream were done: a ring of kTickWindow times.
//
// Not locked: the stream holds the lock.
#pragma once

#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace spillway {

class TickTimes {
 public:
  void note(std::uint64_t value, Nanos at) { times_[value % kTickWindow] = at; }

  // `recorded` and `done`: the newest tick of the stream that was recorded, that is done.
  [[nodiscard]] Nanos at(std::uint64_t value, std::uint64_t recorded, std::uint64_t done) const {
    SPILLWAY_ENSURE(value > 0 && value <= done, "only a tick that is done has a time");
    SPILLWAY_ENSURE(value + kTickWindow > recorded, "times are kept for the last kTickWindow ticks of a stream");
    return times_[value % kTickWindow];
  }

 private:
  std::vector<Nanos> times_ = std::vector<Nanos>(kTickWindow);
};

}  // namespace spillway
