// The door to memory and streams: everything above acts on a card, on host RAM or on a simulated card through this.
//
// Memory comes in three tiers, each one contiguous arena addressed by offset: `reserve` takes address space, `commit`
// puts memory behind a part of it, `decommit` gives that memory back at once. Work is enqueued on streams and runs in
// their order; a Tick names a point in that order.
//
//   committed(tier) == sum of the lengths of the committed ranges of that tier, always
//
// Nothing here waits for the device except `synchronize` (and `wait` on a stream that is the calling thread itself).
// decommit is not stream-ordered: its caller makes sure that no enqueued work touches the range any more. All functions
// may be called from any thread. Misuse (a range that is not committed, a tick that was never recorded, ...) throws
// InvariantError and changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/range.h"
#include "base/tick.h"
#include "base/units.h"

namespace spillway {

enum class Tier : std::uint8_t { device, host, file };
inline constexpr int kTierCount = 3;

// A copy to or from the file tier owns whole blocks of this size, see Device::copy. It is the alignment direct I/O asks
// for on every disk in use.
inline constexpr Bytes kFileBlock = 4_KiB;

// The newest ticks of each stream whose times are kept for `elapsed`. A step has some hundred to a few thousand ticks.
inline constexpr std::uint64_t kTickWindow = 4096;

// Where some bytes are: an offset into the arena of a tier.
struct Place {
  Tier tier = Tier::device;
  Bytes offset;
};

struct DeviceFacts {
  std::string name;         // "host", "NVIDIA H200", "V100 (simulated)"
  Bytes granule;            // commit and decommit work in multiples of this, in every tier
  Bytes memory;             // what the device has in all
  bool holds_bytes = true;  // false: a simulation that accounts for bytes without keeping them
};

class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceFacts& facts() const = 0;

  // Once per tier, before its first commit, in whole granules. No memory is taken. Throws InputError when the tier
  // cannot be had here (a spill folder on tmpfs, not writable, ...), with what would help.
  virtual void reserve(Tier tier, Bytes size) = 0;

  // False when there is no memory for it: nothing has changed then. The range is made of whole granules and was not
  // committed. Fresh memory has unspecified contents.
  [[nodiscard]] virtual bool try_commit(Tier tier, Range range) = 0;
  virtual void decommit(Tier tier, Range range) = 0;
  // The memory behind the ranges `from` is behind `to` instead, as many bytes that had none; what it holds is unspecified. Work
  // enqueued before may still use it at its old addresses until the ticks `in_use` are done: whoever uses it at the new ones waits for
  // them. False: this device cannot, and nothing has changed.
  [[nodiscard]] virtual bool try_move(Tier /*tier*/, std::span<const Range> /*to*/, std::span<const Range> /*from*/, std::span<const Tick> /*in_use*/) {
    return false;
  }
  [[nodiscard]] virtual Bytes committed(Tier tier) const = 0;

  // The address of an offset for kernels (device tier) or for the host (host tier); null for the file tier. Valid as long
  // as the reservation, memory behind it or not. Where no bytes are held, the device's addresses only tell places apart
  // and are not to be followed, and the host has none.
  [[nodiscard]] virtual std::byte* address(Tier tier, Bytes offset) const = 0;

  // A new stream of the device's own, independent of all others.
  [[nodiscard]] virtual StreamId open_stream() = 0;

  // Enqueues a copy between two committed places that do not overlap; returns at once. A place in the file tier begins
  // at a multiple of kFileBlock, and what lies between the end of a copy to it and the next multiple is lost. Nothing
  // happens for size zero.
  virtual void copy(StreamId on, Place to, Place from, Bytes size) = 0;
  // Enqueues that every byte of a committed place in the device tier becomes `value`; returns at once.
  virtual void fill(StreamId on, Bytes offset, Bytes size, std::byte value) = 0;

  // Names the point after everything enqueued on the stream so far. Each call adds one to the stream's tick value.
  [[nodiscard]] virtual Tick record(StreamId on) = 0;
  // The same for `elapsed`, also on a stream whose ticks carry no time otherwise, where it costs more.
  [[nodiscard]] virtual Tick record_timed(StreamId on) { return record(on); }
  // The point after everything enqueued on the stream so far, named without touching the device. It becomes a recorded
  // tick when somebody waits for it or asks about it, or with the next `record`; until then it moves along with the
  // stream, so waiting for it may wait for a little more. For points that few will ever ask about: the end of a use.
  [[nodiscard]] virtual Tick mark(StreamId on) { return record(on); }
  // Whatever is enqueued on `waiter` from now on starts after the tick is done. No host wait.
  virtual void wait(StreamId waiter, Tick tick) = 0;
  // True once the tick is done; work before it is then visible to the host. A copy that failed is told here: query and
  // synchronize throw DeviceError for every tick after it, on its stream and on streams that waited for such a tick.
  [[nodiscard]] virtual bool query(Tick tick) = 0;
  virtual void synchronize(Tick tick) = 0;

  // Device time between two ticks that are done and among the last kTickWindow of their streams (older ones are
  // misuse); negative when `from` was done after `to`. Ticks of different streams may be compared.
  [[nodiscard]] virtual Nanos elapsed(Tick from, Tick to) = 0;
  // The host's clock, monotonic.
  [[nodiscard]] virtual Nanos now() const = 0;

  // No other thread is in the middle of a call between the two, so that a forked child finds whole books and no lock
  // held. What a child may do is the device's to say.
  virtual void before_fork() {}
  virtual void after_fork() {}
};

}  // namespace spillway
