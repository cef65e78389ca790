// One tier's memory as everybody above sees it: a Pool that decides, a Device that acts, and one lock around both.
//
// A block may be used on its stream as soon as it is returned: the memory is there, and the waits it owed are enqueued.
// It is given back when its last uses are *enqueued*, with a tick per stream; nobody waits for them on the host.
//
//   device.committed(tier) == stats().reserved <= limit, whenever no call is under way
//
// All functions from any thread. See Note [What happens under the lock] in arena.cpp. The device must outlive the arena,
// and nobody else may commit in its tier.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "arena/block_source.h"
#include "base/quick_mutex.h"
#include "device/device.h"

namespace spillway {

// Blocks' ranges are offsets in the tier.
class Arena final : public BlockSource {
 public:
  // Reserves the tier. The pool's granule must be a multiple of the device's.
  Arena(Device& device, Tier tier, const PoolOptions& options);

  // Empty when nothing fits, even after moving free granules together; whom to evict is the caller's decision. The host
  // waits only for that move, and only when the granules to move are still in use.
  [[nodiscard]] std::optional<Block> try_allocate(Bytes size, StreamId on) override;

  // The same without taking more memory from the device: what is there already, or nothing.
  [[nodiscard]] std::optional<Block> try_allocate_there(Bytes size, StreamId on);

  // In the pool's placed part. Free memory elsewhere is put there, and waited for by the host if need be.
  [[nodiscard]] std::optional<Block> try_allocate_at(Range range, StreamId on) override;
  [[nodiscard]] Bytes placed_from() const override { return placed_from_; }

  // `last_uses`: as for Pool::free. No tick: the block was never touched.
  void free(const Block& block, std::span<const Tick> last_uses) override;
  void free(const Block& block, Tick last_use) { free(block, std::span(&last_use, 1)); }

  void wait(StreamId waiter, Tick tick) override;
  // Before the first block is asked for.
  void set_wait(std::function<void(StreamId, Tick)> wait) override { wait_ = std::move(wait); }
  void set_ask(std::function<bool(Tick)> ask) override { ask_ = std::move(ask); }
  // The caller has seen the tick done.
  void note_done(Tick tick);

  // The cheapest run of blocks whose eviction makes a hole of the size. `cost` runs under the lock: it must not call
  // the arena, nor take a lock that is held anywhere while the arena is called. The answer is true when it is given;
  // another thread's allocation may spoil it.
  [[nodiscard]] std::optional<Window> find_window(Bytes size, const std::function<double(ChunkId)>& cost) const override;

  // Gives back every free granule whose uses are done; with `wait`, waits for those that are not. Returns how much that was.
  Bytes trim(bool wait = false) override;
  // Takes one more granule from the device ahead of need; meanwhile whoever finds what it wants in memory that is there does
  // not wait. False: the limit or the device has none.
  [[nodiscard]] bool try_grow();
  void set_limit(Bytes limit) override;

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] Bytes limit() const override;
  [[nodiscard]] Bytes reserved() const override { return device_.committed(tier_); }
  [[nodiscard]] PoolStats stats() const override;
  [[nodiscard]] std::uint64_t commits() const override { return commits_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t remaps() const override { return remaps_.load(std::memory_order_relaxed); }
  [[nodiscard]] Nanos waited() const override { return Nanos{waited_.load(std::memory_order_relaxed)}; }
  void before_fork() override { (void)lock_to_commit().release(); }
  void after_fork() override { mutex_.unlock(); }
  void verify() const;

 private:
  // For whoever may commit or decommit: nobody else does until it is let go.
  [[nodiscard]] std::unique_lock<QuickMutex> lock_to_commit();
  // Empty, or the waits still owed are in `waits`. The lock is held.
  std::optional<Block> take(Bytes size, StreamId on, bool anywhere, std::vector<Tick>& waits);
  std::optional<Block> take_without_growth(Bytes size, StreamId on, std::vector<Tick>& waits);
  bool carry_out(const Remap& remap);
  // The same without waiting for anybody, where the device can.
  bool try_move(const Remap& remap, std::vector<Range> lacking);
  bool fill_in(Range range, StreamId on, std::vector<Tick>& wait_for);
  bool fill_in(const std::vector<Range>& lacking);
  [[nodiscard]] bool is_done(Tick tick) const;
  [[nodiscard]] std::vector<Tick> not_done(const std::vector<Tick>& ticks) const;
  bool commit(Range range);
  bool learn_done();
  template <class Wait>
  void wait_for_all(const std::vector<Tick>& ticks, Wait wait_for);
  void order_after(StreamId on, const std::vector<Tick>& ticks);
  [[nodiscard]] std::vector<Tick> pending() const;
  void note_stream(StreamId stream);

  Device& device_;
  const Tier tier_;
  const Bytes placed_from_;
  std::function<void(StreamId, Tick)> wait_;
  std::function<bool(Tick)> ask_;
  std::atomic<std::int64_t> waited_ = 0, remaps_ = 0;
  std::atomic<std::uint64_t> commits_ = 0;
  std::atomic<bool> growing_ = false;  // somebody commits without the lock; set and cleared with it
  mutable QuickMutex mutex_;  // guards what is below
  Pool pool_;
  std::uint32_t streams_ = 0;     // one more than the largest index the pool may have heard of
  std::vector<Tick> seen_done_;   // scratch of learn_done
};

}  // namespace spillway
