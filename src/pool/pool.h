// A best-fit pool that remembers which streams last used each free chunk.
//
// A chunk may be handed out again as soon as its free is *scheduled*: on the stream that used it nothing is owed, any
// other stream gets it together with the waits that order it after the last uses. The pool never touches the device: it
// places ranges in an arena of addresses, names the waits its caller owes, and names the memory to commit or decommit.
//
//   live() + free bytes == reserved() <= limit(),   reserved() == bytes committed by the device for this arena
//
// Not locked: the caller serialises. Nothing on the path of a repeated allocate/free pair allocates heap memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/range.h"
#include "base/tick.h"
#include "base/units.h"

namespace spillway {

using ChunkId = Id<struct ChunkKindTag>;

// The synchronization attribute of a free chunk as seen by the requesting stream, cheapest first.
enum class GrantClass : std::uint8_t {
  same_stream,  // last used by the requesting stream alone (or by nobody): stream order suffices
  complete,     // every last use is known to be done
  ordered,      // the requesting stream already waits for every last use that is not done
  fresh,        // memory newly committed for this request
  orderable,    // owed: a device-side wait per last use in `waits`
};
inline constexpr int kGrantClassCount = 5;

struct PoolOptions {
  Bytes address_space;      // length of the reserved arena; may exceed the limit (room to remap)
  Bytes limit;              // hard: reserved() never exceeds it
  Bytes granule = 2_MiB;    // what the device commits in
  Bytes alignment = 512_B;  // every grant begins and is sized in multiples of this
  Bytes slab = 2_MiB;       // small requests are carved from slabs of this size, capped at limit / 64; 0: no slabs
};

struct Grant {
  ChunkId chunk;
  Range range;                     // at least the size asked for
  GrantClass granted = GrantClass::same_stream;
  std::span<const Tick> waits;     // order the requesting stream after these before the first access;
                                   // valid until the next call of the pool
  Range commit;                    // commit this before the first access (empty: nothing to do)
};

// The cheapest contiguous run of chunks that would make a hole of the size asked for.
struct Window {
  Range range;
  std::vector<ChunkId> evict;  // the used chunks in it, by address
  double cost = 0;
};

// Memory taken from free granules elsewhere and put where the run of addresses is long enough.
struct Remap {
  std::vector<Range> decommit;
  Range commit;
  std::vector<Tick> wait_for;  // the host must see these done before it decommits
};

struct PoolStats {
  Bytes live, peak_live;          // granted and not freed, rounded to the alignment
  Bytes reserved, peak_reserved;  // committed
  Bytes largest_free;
  std::array<std::int64_t, kGrantClassCount> grants{};
  std::int64_t waits_owed = 0;
  std::int64_t refusals = 0;
  std::int64_t live_chunks = 0, free_chunks = 0;

  // The part of the reserved bytes that is free, but not in one piece.
  [[nodiscard]] double fragmentation() const;
};

class Pool {
 public:
  explicit Pool(const PoolOptions& options);
  ~Pool();
  Pool(Pool&&) noexcept;
  Pool& operator=(Pool&&) noexcept;

  // Empty when nothing fits under the limit; whom to evict is the caller's decision. A grant with a commit range is
  // already counted in reserved(): call `abandon` if the device refuses the memory.
  [[nodiscard]] std::optional<Grant> try_allocate(Bytes size, StreamId on);
  void abandon(const Grant& grant);

  // `last_uses`: the last tick of every stream that used the chunk, at most one per stream.
  void free(ChunkId chunk, std::span<const Tick> last_uses);
  void free(ChunkId chunk, Tick last_use) { free(chunk, std::span(&last_use, 1)); }

  // What the caller learned of the streams: work up to the tick is done; `waiter` now waits for the tick.
  void note_done(Tick tick);
  void note_wait(StreamId waiter, Tick tick);
  // The newest tick of the stream the pool has heard of that is not known to be done, if any: worth a query.
  [[nodiscard]] std::optional<Tick> pending(StreamId stream) const;

  // Cheapest window of `size` bytes, given the cost of evicting each used chunk (negative or infinite: it must stay).
  // Free chunks cost nothing. Empty when no window exists. Slabs stay.
  [[nodiscard]] std::optional<Window> find_window(Bytes size, const std::function<double(ChunkId)>& cost) const;

  // When free bytes suffice but no hole does. Empty when even that cannot serve the size. `apply_remap` changes the
  // books; the device must have done its part, or do it before the next grant is used.
  [[nodiscard]] std::optional<Remap> plan_remap(Bytes size) const;
  void apply_remap(const Remap& remap);

  // Whole free granules, done and in nobody's way: given back to the device. Returns the ranges to decommit.
  [[nodiscard]] std::vector<Range> trim();

  // Lowering it below reserved() is allowed: no growth until trims and frees have brought reserved() under it.
  void set_limit(Bytes limit);

  [[nodiscard]] Bytes limit() const;
  [[nodiscard]] Bytes reserved() const;
  [[nodiscard]] Bytes live() const;
  [[nodiscard]] Range range(ChunkId chunk) const;
  [[nodiscard]] PoolStats stats() const;

  // Throws InvariantError when any law of the structure is broken. Linear; for tests and the simulator.
  void verify() const;

 private:
  struct Books;
  std::unique_ptr<Books> books_;
};

}  // namespace spillway
