// A place for every block of a step that repeats.
//
// The plan's own timeline tells which blocks a step takes and how long each of them stays, also over the step's end;
// plan/placement.h finds them places that nobody else has at that time; steps that follow the script take them there. So
// memory never falls to pieces, and nobody leaves for a hole. A block that has no place, or whose place is taken by one that
// has a right to it, is served like any other.
//
// Belongs to the engine's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/range.h"
#include "base/units.h"
#include "plan/blocks.h"
#include "pool/pool.h"

namespace spillway {

// The places of one step, by the op during which they are taken.
struct Places {
  struct Entry {
    Bytes size, offset;
    std::uint32_t gap = kNoPlace;
  };
  // Of a storage that is there all the time.
  struct Lasting {
    StorageId storage;
    Bytes size, offset;
  };
  std::vector<Entry> entries;
  std::vector<Lasting> lasting;      // by storage
  std::vector<std::uint32_t> first;  // by op
  std::vector<std::uint32_t> of_gap; // by gap of the plan: the entry its way back has; kNoPlace: none
  std::vector<std::uint32_t> free_from;  // the same: the op from which on it is nobody else's
  Bytes top, room;                   // the highest end, and how high it may be
  [[nodiscard]] bool fits() const { return top <= room; }
  [[nodiscard]] bool lie_in(Range range) const;
};

// Where places may be.
struct Ground {
  Bytes from;  // the lowest place; 0: there are none
  Bytes limit;
  Bytes alignment = 512_B;
  Bytes granule = 2_MiB;  // of memory
  Bytes open = 0_B;       // what is not placed was seen to need as much
};

// `ops`: how many the step has.
[[nodiscard]] Places find_places(const BlockList& list, std::uint32_t ops, const Ground& ground);

class Layout {
 public:
  // Smaller ones fit anywhere.
  static constexpr Bytes kSmallest = 16_KiB;

  // `on`: it goes by a script.
  void begin_step(bool on);
  // Place 0 is before the first op.
  void begin_op(std::uint32_t op) { op_ = op + 1; }
  void leave_course() { on_ = false; }
  // The place of the block that is asked for now, for a way back over this gap of the plan if that is named; none: anywhere.
  struct Place {
    std::uint32_t entry = kNoPlace;  // none: of one that lasts
    Range range;
  };
  [[nodiscard]] std::optional<Place> find_place(Bytes size, std::uint32_t gap) const;
  // The place of a storage that is there all the time.
  [[nodiscard]] std::optional<Place> find_lasting_place(StorageId storage, Bytes size) const;
  void took(ChunkId chunk, Bytes size, const std::optional<Place>& place);
  void freed(ChunkId chunk);
  // It lies where it should. Others give way.
  [[nodiscard]] bool is_in_place(ChunkId chunk) const { return chunk.index < by_chunk_.size() && by_chunk_[chunk.index] == uses_; }

  // Blocks of the step at hand that did not get a place.
  [[nodiscard]] int misses() const { return misses_; }
  [[nodiscard]] bool is_placed() const { return places_ != nullptr; }

  // From the next step on; in the rest of this one nobody gets a place but who lasts. Null: none.
  void use(std::shared_ptr<const Places> places);

 private:
  [[nodiscard]] bool is_free(std::uint32_t entry, Bytes size) const {
    return !taken_[entry] && places_->entries[entry].size == size;
  }

  bool on_ = false;
  std::uint32_t op_ = 0;
  std::shared_ptr<const Places> places_;
  std::vector<bool> taken_;  // by entry of places_, in this step
  std::uint32_t uses_ = 1;   // how many places were in use so far
  std::vector<std::uint32_t> by_chunk_;  // the count above when the chunk got its place; 0: it has none
  int misses_ = 0;
};

}  // namespace spillway
