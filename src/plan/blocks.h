// The blocks of memory a step takes under a plan, in the order in which the timeline takes and gives them back.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/placement.h"
#include "plan/plan.h"

namespace spillway {

struct PlannedBlock {
  Presence there;
  std::uint32_t during = 0;  // 1 + the op it is taken during or right after; 0: before the first
  std::uint32_t gap = kNoPlace;  // of the plan: whose way back it is for
};

// There all the time.
struct LastingBlock {
  StorageId storage;
  Bytes size;
};

struct BlockList {
  std::vector<PlannedBlock> blocks;  // in the order they are taken
  std::vector<LastingBlock> lasting;
  Bytes elsewhere;                   // of those that never leave, or of which nobody knows how they come and go
  Bytes small;                       // of those left out, at their most
};

// `smallest`: who is below it is left out.
[[nodiscard]] BlockList list_blocks(const PlanRequest& request, const Plan& plan, Bytes smallest);

// What the timeline writes down. A storage has a block while its bytes are there, and until its way out has ended.
class BlockLog {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX, kOpen = UINT32_MAX;

  explicit BlockLog(std::size_t storages) : latest_(storages, kNone), first_(storages, kNone) {}

  // `first`: there when the step begins.
  void open(std::uint32_t storage, Bytes size, std::uint32_t during, bool first = false);
  // The latest block of the storage is for its way back over this gap of the problem.
  void tag(std::uint32_t storage, std::uint32_t gap) { entries_[latest_[storage]].block.gap = gap; }
  void close(std::uint32_t storage) { end(latest_[storage]); }
  void end(std::uint32_t block);
  [[nodiscard]] std::uint32_t latest(std::uint32_t storage) const { return latest_[storage]; }
  // A block nobody keeps beyond the op.
  [[nodiscard]] std::uint32_t open_workspace(Bytes size, std::uint32_t during);

  [[nodiscard]] BlockList take(const Liveness& step, Bytes smallest);

 private:
  struct Entry {
    PlannedBlock block;
    std::uint32_t storage = kNone;
    bool first = false, left_out = false;
  };
  [[nodiscard]] Bytes peak_below(Bytes smallest) const;
  void link_to_next_step(std::uint32_t at, std::uint32_t first, Bytes& elsewhere);

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> latest_, first_;  // by storage
  std::uint32_t positions_ = 0;
};

}  // namespace spillway
