// Where the time of the compute stream goes: every stretch between two marks belongs to one thing.
//
// Marks are ticks on that stream, read when they are done, so nobody waits for being measured. A stretch that ended because
// the host had not come to the next mark earlier is the host's, whatever the stream waited for.
//
//   sum over kinds of spent(kind) == time of the last mark - time of the first
#pragma once

#include <array>
#include <deque>

#include "device/device.h"

namespace spillway {

enum class Spent : std::uint8_t { host, fetch, room, kernels, rebuilds, beside_copies };
inline constexpr std::size_t kSpentKinds = 6;

class Meter {
 public:
  Meter(Device& device, StreamId stream);

  // The stretch since the last mark; `nominal`: what a kernel takes when nothing is beside it, the rest is beside_copies.
  void mark(Spent kind, Nanos nominal = {});
  // Reads the marks that are done; with `all`, waits for the others.
  void read(bool all = false);

  [[nodiscard]] Nanos spent(Spent kind) const { return spent_[static_cast<std::size_t>(kind)]; }
  // Since the meter was made, up to the last mark read.
  [[nodiscard]] Nanos now() const { return at_ - begin_; }

 private:
  struct Mark {
    Tick tick;
    Spent kind = Spent::host;
    Nanos nominal, host;  // host: its clock when the mark was made
  };

  void add(const Mark& mark, Nanos end);

  Device& device_;
  const StreamId stream_;
  Tick last_;
  Nanos begin_, at_;  // on the host's clock
  std::deque<Mark> waiting_;
  std::array<Nanos, kSpentKinds> spent_{};
};

}  // namespace spillway
