// How long streams stand still for something, where the host's clock shows nothing of it.
//
// A wait that does not block the host is timed on its stream: by the point before it. What is awaited has a time of its own, so
//
//   stall == max(0, time of what was awaited - time of the point before the wait)
//
// It is read when both are done, and nobody waits for being measured. A device forgets times (kTickWindow), so they are
// read every now and then within a step, too. Belongs to the engine's lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "device/device.h"
#include "plan/blocks.h"
#include "trace/event.h"

namespace spillway {

// What was waited for: bytes on their way home; device memory whose users are not done; a place in host memory, where pinning
// it takes the time; the file, for a place in it or for bytes to come back.
struct StallTimes {
  Nanos fetch, room, host_room, file;
  [[nodiscard]] Nanos& of(StallCause cause) { return *std::array{&fetch, &room, &host_room, &file}[static_cast<std::size_t>(cause)]; }
};

struct StreamWait {
  Tick before, awaited;  // the former recorded with a time
  StallCause cause = StallCause::fetch;
  std::uint32_t gap = kNoPlace;  // of the script that is followed: it is its way back that is awaited
  std::uint64_t step = 0;
};

// False also where the device failed: that is told to whoever needs the bytes.
[[nodiscard]] bool is_running(Device& device, Tick tick);

// Zero when it is shorter than anybody can tell, or was forgotten. None: it is not over, as far as is known.
[[nodiscard]] std::optional<Nanos> find_stall(Device& device, Tick before, Tick awaited);

// Waits that are not over yet, in the order of the host. There is room for so many, and one more is not measured.
class StreamWaits {
 public:
  static constexpr std::size_t kMost = 512;

  void add(const StreamWait& wait) {
    if (count_ < kMost) waits_[(first_ + count_++) % kMost] = wait;
  }
  // Nothing of the step is waited for any more.
  [[nodiscard]] bool is_over(std::uint64_t step) const { return count_ == 0 || waits_[first_].step > step; }
  // Takes those out that are over, and tells `visit(wait, stall)` of each that was one.
  template <class Visit>
  void settle(Device& device, Visit visit) {
    const std::size_t over = visit_over(device, visit);
    first_ = (first_ + over) % kMost;
    count_ -= over;
  }
  // The same, and they stay.
  template <class Visit>
  std::size_t visit_over(Device& device, Visit visit) const {
    for (std::size_t at = 0; at < count_; ++at) {
      const StreamWait& wait = waits_[(first_ + at) % kMost];
      const auto stall = find_stall(device, wait.before, wait.awaited);
      if (!stall) return at;
      if (*stall > Nanos{}) visit(wait, *stall);
    }
    return count_;
  }

 private:
  std::array<StreamWait, kMost> waits_;
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace spillway
