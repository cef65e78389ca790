// Measures operators on the device, without waiting for them: start and stop around each, all times read at once later.
#pragma once

#include <functional>
#include <vector>

#include "base/units.h"

namespace spillway {

class OpClock {
 public:
  virtual ~OpClock() = default;
  // On the calling thread's current stream. False: another thread's ops are measured until the next take, and this one is not.
  [[nodiscard]] virtual bool start() = 0;
  // After a start that said true.
  virtual void stop() = 0;
  // What was waited for since the start is none of the op's time.
  virtual void restart() = 0;
  // The device waits for so long before it goes on: meanwhile the host gets ahead of it.
  virtual void hold_back(Nanos time) = 0;
  // Tells the times of every pair since the last call, in order, to whoever asks, once, on any thread; that waits for the device.
  // Empty: there is none.
  using Reading = std::function<std::vector<Nanos>()>;
  [[nodiscard]] virtual Reading take() = 0;
};

}  // namespace spillway
