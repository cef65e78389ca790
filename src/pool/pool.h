// A best-fit pool that remembers which streams last used each free chunk.
//
// A chunk may be handed out again as soon as its free is *scheduled*: on the stream that used it nothing is owed, any
// other stream gets it together with the waits that order it after the last uses. The pool never touches the device: it
// places ranges in an arena of addresses, names the waits its caller owes, and names the memory to commit or decommit.
//
//   live() + free bytes == reserved() <= limit(),   reserved() == bytes committed by the device for this arena
//
// (reserved() may stand above a limit that was lowered; it then never grows.) Not locked: the caller serialises.
// Nothing on the path of a repeated allocate/free pair allocates heap memory. Equal calls give equal answers.
//
// Note [Last uses]
// The last uses of a free chunk are the ticks named when it was freed, less those known to be done then, less those
// that another of them implies. A split hands them to both parts; a merge takes, per stream, the later tick. A tick t of
// stream T *implies* every earlier tick of T, every tick T had waited for before t was recorded, and what those imply.
// What a done tick implies is done; what a stream has waited for it is ordered after, with all that implies.
//
// Note [When free neighbours merge]
// At once, when a chunk becomes free (by `free`, `abandon`, `apply_remap`, or a slab given up), if
//   - the pool has heard of at most one stream, or
//   - both have the same set of last-using streams (the later tick counts: nothing changes for a stream that used both;
//     another may have to wait a little longer, which costs less than an owner whose memory falls to pieces), or
//   - every last use of both is done by then (degrades nobody), or
//   - the run of free neighbours would otherwise have more than kLongestRun members.
// In the placed part (PoolOptions::placed_from) only the third holds: whoever gets the place of one must not wait for the
// other. Otherwise a seam stays between them, so that a merge never makes a chunk wait that need not: a request that no single
// chunk can serve may still get a run of neighbours, seams and all.
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

// Bounds the walk along a run of free neighbours; see Note [When free neighbours merge]. Sixteen differing neighbours
// in a row do not occur with a compute stream and two copy streams.
inline constexpr int kLongestRun = 16;

// What a free chunk costs the requesting stream S, cheapest first; the lowest that applies counts.
enum class GrantClass : std::uint8_t {
  same_stream,  // S is among the last users, and what others last did with it is done: stream order suffices
  complete,     // never used, or every last use is known to be done
  ordered,      // every last use is by S, done, or one S is already ordered after
  fresh,        // some of the memory is newly committed for this request, and no wait is owed for the rest
  orderable,    // owed: the device-side waits in `waits`; there may be memory to commit too
};
inline constexpr int kGrantClassCount = 5;

struct PoolOptions {
  Bytes address_space;      // length of the reserved arena; may exceed the limit (room to remap)
  Bytes limit;              // hard: reserved() never exceeds it
  Bytes granule = 2_MiB;    // what the device commits in; a multiple of the alignment
  Bytes alignment = 512_B;  // every grant begins and is sized in multiples of this; a power of two
  // Addresses from here on are for try_allocate_at; others get them only when they ask for it. 0: none are set apart.
  Bytes placed_from;
  Bytes slab = 2_MiB;       // small requests are carved from slabs of at most this, capped at limit / 64; 0: no slabs
  bool dear_memory = false; // committing costs more than a wait: step 3 of try_allocate comes last
};

struct Grant {
  ChunkId chunk;
  Range range;  // at least the size asked for
  GrantClass granted = GrantClass::same_stream;
  std::span<const Tick> waits;  // order the requesting stream after these before the first access, then tell
                                // note_wait; at most one per stream, none implied by another; valid until the next
                                // call of the pool
  Range commit;                 // whole granules to commit before the first access (empty: nothing to do)
};

// The cheapest contiguous run of chunks that would make a hole of the size asked for.
struct Window {
  Range range;                 // where the hole would be
  std::vector<ChunkId> evict;  // the used chunks in it, by address
  double cost = 0;             // the sum of their costs
};

// Memory taken from free granules elsewhere and put where the run of addresses is long enough.
struct Remap {
  std::vector<Range> decommit;  // whole free granules, by address
  Range commit;                 // whole granules without memory; at least as long as the decommitted ones together
  std::vector<Tick> wait_for;   // the host must see these done before it decommits
  // Where memory moves while it is in use: what is to be waited for in each of the decommitted ranges; and, for apply_remap, in what
  // is committed, so that whoever gets it is ordered after that.
  std::vector<std::vector<Tick>> in_use = {};
  std::vector<Tick> uses = {};
};

struct PoolStats {
  Bytes live, peak_live;          // the ranges granted and not freed
  Bytes reserved, peak_reserved;  // committed
  Bytes largest_free;             // the longest free stretch, seams and empty slabs included
  std::array<std::int64_t, kGrantClassCount> grants{};
  std::int64_t waits_owed = 0;  // the waits of all grants so far
  std::int64_t refusals = 0;
  std::int64_t live_chunks = 0, free_chunks = 0;  // free slots of slabs are not counted

  // The part of the reserved bytes that is free, but not in one piece.
  [[nodiscard]] double fragmentation() const;
};

class Pool {
 public:
  explicit Pool(const PoolOptions& options);
  ~Pool();
  Pool(Pool&&) noexcept;
  Pool& operator=(Pool&&) noexcept;

  // Served from the first of these that has something:
  //   1. a single free chunk of class same_stream, then complete, then ordered
  //   2. a run of free neighbours none of which needs a wait, whose class is that of their merged last uses
  //   3. more memory, as little as will do with the free chunks beside it that need no wait: fresh
  //   4. a single free chunk that needs waits, a run of them, more memory beside free chunks that need waits: orderable
  // Best fit within each, ties to the lowest address; a run is chosen by the length of the whole run of neighbours, and
  // for 2 only the 32 shortest that are long enough are looked at.
  // Small requests are rounded up to a size class and served by the same classes from slots of that size; where there
  // is no room for a slab they are treated like any other.
  //
  // Empty when nothing fits under the limit; whom to evict is the caller's decision. A grant with a commit range is
  // already counted in reserved(): call `abandon`, before anything else, if the device refuses the memory.
  // `anywhere`: in the placed part too, if there is no room outside it.
  [[nodiscard]] std::optional<Grant> try_allocate(Bytes size, StreamId on, bool anywhere = false);
  // Undoes the latest try_allocate: the chunk and the memory that was to be committed go back as they were, except that
  // free chunks merged for it stay merged.
  void abandon(const Grant& grant);

  // The range and nothing else, in the placed part, by multiples of the alignment: empty unless all of it is free memory.
  [[nodiscard]] std::optional<Grant> try_allocate_at(Range range, StreamId on);
  // What of it has no memory, in whole granules: `apply_remap` with such a `commit` adds it. Empty: some of it is in use.
  [[nodiscard]] std::optional<std::vector<Range>> lacking(Range range);

  // `last_uses`: per stream that used the chunk a tick recorded after its last use; at most one per stream. The first
  // use on a stream other than the requesting one must be ordered after the grant, as with any stream-ordered memory.
  // None: the chunk was never accessed, and the last uses it was granted with stand.
  void free(ChunkId chunk, std::span<const Tick> last_uses);
  void free(ChunkId chunk, Tick last_use) { free(chunk, std::span(&last_use, 1)); }

  // Work up to the tick is done, and so is all that the tick implies.
  void note_done(Tick tick);
  // Whatever `waiter` does from now on starts after the tick. `position` is the value of the waiter's newest recorded
  // tick when the wait was enqueued (0: none): its ticks above `position` imply the tick, the others do not. A position
  // that is too high is safe, and knows less. Report the waits of a stream in their order, and a wait before any tick
  // of the waiter recorded after it. The waits of a grant are the caller's to enqueue, and to report here afterwards;
  // one not reported is merely owed again.
  void note_wait(StreamId waiter, Tick tick, std::uint64_t position);
  // The newest tick of the stream the pool has heard of that is not known to be done, if any: worth a query.
  [[nodiscard]] std::optional<Tick> pending(StreamId stream) const;

  // Cheapest window of `size` bytes, given the cost of evicting each used chunk (negative, infinite or not a number: it
  // must stay). Free chunks cost nothing; so does address space without memory, as far as the limit allows to commit
  // it, but one stretch of it at most. Ties to the lowest address. Empty when no window exists. Small requests live in
  // slabs; those stay, and `cost` is not asked about what is in them. Once the window's chunks are freed, try_allocate
  // serves the size, anywhere.
  [[nodiscard]] std::optional<Window> find_window(Bytes size, const std::function<double(ChunkId)>& cost) const;

  // When free bytes suffice but no hole does. Empty when even that cannot serve the size; a plan with nothing in it
  // when try_allocate serves it already. Looks for one stretch without memory and the free chunks beside it, commits as
  // few bytes as possible, takes granules first that stream `on` can use without a wait, complete ones before others, lowest address first.
  // `apply_remap` changes the books, and must come before any other change; then try_allocate serves the size. The
  // device must do its part before the next grant is used.
  [[nodiscard]] std::optional<Remap> plan_remap(Bytes size, StreamId on = {}) const;
  void apply_remap(const Remap& remap);
  // Free granules outside `keep` that can give up so many bytes, taken in the same order; without a `commit`. Empty: too few.
  [[nodiscard]] std::optional<Remap> find_donors(Bytes size, Range keep, StreamId on = {}) const;

  // One granule without memory, the lowest outside the placed part, if the limit allows one more: `apply_remap` with it as
  // `commit` adds it as free memory.
  [[nodiscard]] std::optional<Range> find_growth() const;

  // Every whole free granule whose last uses are all done is given back. Returns the ranges to decommit.
  [[nodiscard]] std::vector<Range> trim();

  // Lowering it below reserved() is allowed: no growth until trims and frees have brought reserved() under it.
  void set_limit(Bytes limit);

  [[nodiscard]] Bytes limit() const;
  [[nodiscard]] Bytes reserved() const;
  [[nodiscard]] Bytes live() const;
  [[nodiscard]] Range range(ChunkId chunk) const;
  // Linear in the number of chunks (largest_free); the numbers above are not.
  [[nodiscard]] PoolStats stats() const;

  // Throws InvariantError when any law of the structure is broken. Linear; for tests and the simulator.
  void verify() const;

 private:
  struct Books;
  std::unique_ptr<Books> books_;
};

}  // namespace spillway
