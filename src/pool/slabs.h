// Slabs: stretches of the arena cut into slots of one size, for small requests.
//
// Small storages come in thousands and many live long; kept together they do not cut the arena into pieces, and a slot
// never splits or merges. A slot carries its last uses like any chunk. An empty slab is kept until somebody needs the
// memory: `dissolve_empty` makes it a free chunk again.
//
//   a new slab of a size is as long as all others of that size together, within [kFirstSlots slots, the largest slab],
//   so slabs waste no more than they hold, whatever the sizes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pool/free_index.h"
#include "pool/space.h"

namespace spillway {

class Slabs {
 public:
  // Small is what the largest slab has this many slots for: 8 KiB of 2 MiB. With these two numbers the pool needs no
  // more than plain best fit on each recorded step, give or take a granule (bench_pool; with small up to 32 KiB, or
  // first slabs of 16 or 64 slots, it needed up to 0.15 % of peak live more).
  static constexpr std::int64_t kFewestSlots = 256;
  static constexpr std::int64_t kFirstSlots = 32;

  // The space must outlive the slabs.
  explicit Slabs(Space& space) : space_(space), slots_(space.alignment()) {}

  // For slabs opened from now on. 0: none.
  void set_largest(Bytes largest);

  // The slot size that serves a request, eight per doubling; 0 if the request is not small.
  [[nodiscard]] Bytes slot_for(Bytes size) const;
  // How long the next slab with such slots should be.
  [[nodiscard]] Bytes next_length(Bytes slot) const;

  [[nodiscard]] const FreeIndex& free_slots() const { return slots_; }
  // A used chunk becomes a slab; all its slots are free and have its last uses. Returns the lowest.
  ChunkId open(ChunkId chunk, Bytes slot);
  void take(ChunkId slot);
  // A used slot becomes free, with the last uses it has.
  void release(ChunkId slot);

  [[nodiscard]] bool empty(ChunkId slab) const { return slabs_[space_.chunks()[slab].slab].live == 0; }
  // Makes every empty slab a free chunk; false if there was none.
  bool dissolve_empty();

  void verify() const;

 private:
  struct Slab {
    ChunkId chunk;  // invalid: this number is unused
    Bytes slot;
    std::vector<ChunkId> slots;
    std::int64_t live = 0;
  };

  void dissolve(Slab& slab);
  void insert(ChunkId slot);
  void verify_slab(const Slab& slab, std::int64_t& free_slots) const;

  Space& space_;
  FreeIndex slots_;
  std::vector<Slab> slabs_;
  std::vector<std::uint32_t> unused_;
  std::map<Bytes, Bytes> held_;  // by slot size: the bytes of its slabs
  std::int64_t empty_ = 0;
  Bytes largest_;
};

}  // namespace spillway
