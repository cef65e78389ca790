#include "engine/stalls.h"

#include "base/error.h"

namespace spillway {

namespace {

constexpr Nanos kShortest = 2_us;  // a card's clock ticks twice a microsecond, and a wait takes some of it in any case

bool is_kept(Device& device, Tick tick) { return tick.value + kTickWindow / 2 > device.mark(tick.stream).value; }

}  // namespace

bool is_running(Device& device, Tick tick) {
  try {
    return !device.query(tick);
  } catch (const DeviceError&) {
    return false;
  }
}

// What is done while the stream has not come to the wait is not waited for.
std::optional<Nanos> find_stall(Device& device, Tick before, Tick awaited) {
  if (is_running(device, awaited)) return std::nullopt;
  if (is_running(device, before) || !is_kept(device, before) || !is_kept(device, awaited)) return Nanos{};
  try {
    const Nanos stall = device.elapsed(before, awaited);
    return stall < kShortest ? Nanos{} : stall;
  } catch (const DeviceError&) {
    return Nanos{};
  }
}

}  // namespace spillway
