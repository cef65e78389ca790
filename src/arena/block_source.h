// Where the engine's device memory comes from: an arena of ours, or an allocator that was there before.
//
// A block may be used on its stream as soon as it is returned, and is given back when its last uses are *enqueued*, with a
// tick per stream; nobody waits for them on the host.
//
//   reserved() <= limit(), except right after the limit was lowered: trim, and give more back, until it holds again
//
// All functions from any thread.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "base/range.h"
#include "base/tick.h"
#include "base/units.h"
#include "pool/pool.h"

namespace spillway {

struct Block {
  ChunkId chunk;
  Range range;  // at least the size asked for
};

class BlockSource {
 public:
  virtual ~BlockSource() = default;

  // Empty when nothing fits; whom to evict is the caller's decision.
  [[nodiscard]] virtual std::optional<Block> try_allocate(Bytes size, StreamId on) = 0;
  // The same at a chosen place, for sources that have places to choose; empty when it is not free.
  [[nodiscard]] virtual std::optional<Block> try_allocate_at(Range /*range*/, StreamId /*on*/) { return std::nullopt; }
  // Where the places to choose begin. 0: there are none.
  [[nodiscard]] virtual Bytes placed_from() const { return {}; }
  virtual void free(const Block& block, std::span<const Tick> last_uses) = 0;
  // Makes the stream wait, and remembers it, so that blocks pass between the two without another wait.
  virtual void wait(StreamId waiter, Tick tick) = 0;
  // How try_allocate orders a stream after those who used its block before; none: by `wait`, which the given one calls.
  virtual void set_wait(std::function<void(StreamId waiter, Tick tick)> /*wait*/) {}
  // Who is asked whether a tick is done, where a decision hangs on it; none: the device.
  virtual void set_ask(std::function<bool(Tick)> /*ask*/) {}
  // The cheapest blocks whose eviction should make room for the size. `cost` must not call the source.
  [[nodiscard]] virtual std::optional<Window> find_window(Bytes size, const std::function<double(ChunkId)>& cost) const = 0;
  // Gives free memory back to the device; with `wait`, also what is still in use by work that is enqueued. How much.
  virtual Bytes trim(bool wait = false) = 0;
  virtual void set_limit(Bytes limit) = 0;
  [[nodiscard]] virtual Bytes limit() const = 0;
  // Changes whenever more may have been taken from the device. Cheap: asked at every allocation.
  [[nodiscard]] virtual std::uint64_t commits() const = 0;
  // Taken from the device now.
  [[nodiscard]] virtual Bytes reserved() const = 0;
  [[nodiscard]] virtual PoolStats stats() const = 0;
  // How often free memory was put together because bytes sufficed and no hole did.
  [[nodiscard]] virtual std::int64_t remaps() const { return 0; }
  // What callers of try_allocate waited for memory whose last uses were not done.
  [[nodiscard]] virtual Nanos waited() const { return {}; }
  // No other thread is in the middle of a call between the two, so that a forked child finds whole books and no lock held.
  virtual void before_fork() {}
  virtual void after_fork() {}
};

}  // namespace spillway
