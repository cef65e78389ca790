// A place for every block of a step that repeats.
//
// While a step follows its script, the blocks it takes and gives back are written down in their order. Two such steps tell
// how long each block stays, also over the step's end; plan/placement.h finds them places that nobody else has at that
// time; the steps after take the same blocks at the same places. So memory never falls to pieces, and nobody leaves for a
// hole. A block that has no place, or whose place is taken, is served like any other.
//
// What leaves beside the script counts as if it had stayed: with places it would not have had to. Belongs to the engine's
// lock.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <vector>

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
  std::vector<Entry> entries;
  std::vector<std::uint32_t> first;  // by op
  std::vector<std::uint32_t> of_gap; // by gap of the plan: the entry its way back has; kNoPlace: none
  Bytes top, room;                   // the highest end, and how high it may be
  [[nodiscard]] bool fits() const { return top <= room; }
};

// Where places may be.
struct Ground {
  Bytes from;  // the lowest place; 0: there are none
  Bytes limit;
  Bytes alignment = 512_B;
};

// `ops`: how many the step has. `elsewhere`: bytes that are there all the time and have no place.
[[nodiscard]] Places find_places(std::span<const PlannedBlock> blocks, std::uint32_t ops, Bytes elsewhere, const Ground& ground);

class Layout {
 public:
  // Smaller ones fit anywhere.
  static constexpr Bytes kSmallest = 16_KiB;

  // A block as the step at hand knows it; survives that its bytes leave beside the script.
  struct Name {
    std::uint32_t step = 0, entry = 0;
  };

  // `on`: it goes by a script.
  void begin_step(bool on);
  void begin_op(std::uint32_t op);
  void leave_course() { on_ = false; }
  // The place of the block that is asked for now, for a way back over this gap of the plan if that is named; none: anywhere.
  struct Place {
    std::uint32_t entry = 0;
    Bytes offset;
  };
  [[nodiscard]] std::optional<Place> find_place(Bytes size, std::uint32_t gap) const;
  void took(ChunkId chunk, Bytes size, const std::optional<Place>& place, std::uint32_t gap);
  // `way_out`: its bytes are still being copied away.
  void freed(ChunkId chunk, bool way_out);
  // It leaves beside the script, and comes back in another chunk.
  [[nodiscard]] Name suspend(ChunkId chunk);
  void resume(ChunkId chunk, Name name);
  // It would have gone now, had it not left before.
  void ended(Name name, bool way_out);

  // Blocks of the step at hand that did not get a place.
  [[nodiscard]] int misses() const { return misses_; }
  [[nodiscard]] bool is_placed() const { return places_ != nullptr; }
  [[nodiscard]] bool is_placing() const { return coming_.valid(); }

  // True when this step and the one before tell enough to place blocks by.
  [[nodiscard]] bool end_step(bool followed);
  // Finds places on a thread of its own, after end_step said so.
  struct Task {
    std::vector<Nanos> starts;  // when ops begin, and the step's end
    double out_nanos_per_byte = 0;
    Ground ground;
    Bytes live;                 // bytes there when the step ends
    bool at_once = false;       // by the calling thread
  };
  void start_placing(const Task& task);
  // Null when none are ready.
  [[nodiscard]] std::shared_ptr<const Places> take_places();
  // From the next step on.
  void use(std::shared_ptr<const Places> places) { places_ = std::move(places); }
  // Another script: what was written down is of no use.
  void forget();

 private:
  static constexpr std::uint32_t kStillThere = UINT32_MAX;

  struct Block {
    Bytes size;  // zero: struck out
    std::uint32_t op = 0, end_op = 0, gap = kNoPlace;
    std::uint32_t begin = 0, end = kStillThere;  // positions; an end before the begin is one in the next step
    bool way_out = false;
  };
  struct Log {
    std::vector<Block> blocks;
    std::vector<std::uint32_t> first, begin;  // by op: blocks and positions before it
    std::uint32_t positions = 0;
    bool complete = false;
  };

  [[nodiscard]] Block* find(Name name);
  [[nodiscard]] bool is_free(std::uint32_t entry, Bytes size) const {
    return !taken_[entry] && places_->entries[entry].size == size;
  }
  [[nodiscard]] Name forget_chunk(ChunkId chunk);
  void learn_ends();
  void add_ways_out(const Task& task);

  bool on_ = false;
  std::uint32_t step_ = 1, op_ = 0;
  Log now_, before_;
  std::vector<std::uint32_t> ends_;  // of the blocks in before_ that were still there when it ended, in now_
  std::vector<Name> by_chunk_;
  std::shared_ptr<const Places> places_;
  std::vector<bool> taken_;  // by entry of places_, in this step
  int misses_ = 0;
  std::future<std::shared_ptr<const Places>> coming_;
  bool stale_ = false;  // nobody wants what is coming
};

}  // namespace spillway
