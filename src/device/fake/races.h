// Finds accesses that nothing orders: two streams touching the same bytes, at least one writing, with no wait between.
//
// Whether a missing wait does harm depends on timing, and a simulation's timing is always the same. So order is judged
// by what was said, not by when things happened: a vector clock per stream and one for the host, joined by waits, by
// ticks the host has seen done, and by enqueueing (work comes after all the host knew when it enqueued it). The first
// unordered access throws InvariantError from the call that enqueues it. For tests: keeps every tick's clock. Not
// locked.
#pragma once

#include <array>
#include <map>
#include <span>
#include <vector>

#include "base/range.h"
#include "base/tick.h"
#include "device/device.h"

namespace spillway {

// One access of some work: `size` bytes from `place`.
struct MemoryUse {
  Place place;
  Bytes size;
  bool writes = false;
};

class Races {
 public:
  void open_stream();

  // All accesses of one piece of work, which is enqueued now.
  void enqueue(StreamId on, std::span<const MemoryUse> uses);
  void record(Tick tick);
  void wait(StreamId waiter, Tick tick);
  void host_saw(Tick tick);
  // The host gives the memory back: everything that touched it must be known to it as done.
  void forget(Tier tier, Range range);
  // The same memory has other addresses: what touched it before counts there.
  void move(Tier tier, std::span<const Range> to, std::span<const Range> from);

 private:
  using Clock = std::vector<std::uint64_t>;  // [stream]: how many of its pieces of work come before
  struct Access {
    std::uint32_t stream = 0;
    std::uint64_t number = 0;  // 0: none yet
  };
  struct Segment {
    Bytes end;
    Access written;
    std::vector<Access> read;  // since it was written, the last of each stream
  };
  using Segments = std::map<Bytes, Segment>;  // by begin; not overlapping

  static void join(Clock& into, const Clock& other);
  static bool is_before(Access access, const Clock& clock);
  static void split(Segments& segments, Bytes at);
  static void move(Segments& segments, Bytes to, Range from);
  void check(const MemoryUse& use, const Segment& segment, Bytes begin, std::uint32_t stream) const;
  void touch(const MemoryUse& use, std::uint32_t stream);
  static void note(Segment& segment, const MemoryUse& use, Access access);

  std::vector<Clock> clocks_;
  Clock host_;
  std::vector<std::vector<Clock>> ticks_;  // [stream][value - 1]
  std::array<Segments, kTierCount> tiers_;
};

}  // namespace spillway
