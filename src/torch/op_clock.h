// Measures operators on the device, without waiting for them: start and stop around each, all times read at once later.
#pragma once

#include <vector>

#include "base/units.h"

namespace spillway {

class OpClock {
 public:
  virtual ~OpClock() = default;
  // On the calling thread's current stream. False: another thread's ops are measured until the next read, and this one is not.
  [[nodiscard]] virtual bool start() = 0;
  // After a start that said true.
  virtual void stop() = 0;
  // What was waited for since the start is none of the op's time.
  virtual void restart() = 0;
  // The device waits for so long before it goes on: meanwhile the host gets ahead of it.
  virtual void hold_back(Nanos time) = 0;
  // Of every pair since the last read, in order. Waits for the device.
  [[nodiscard]] virtual std::vector<Nanos> read() = 0;
};

}  // namespace spillway
