// The end of a long run, held in memory so that the steps in the middle can be let go.
//
// Blocks arrive in segments; a segment ends where a step ends (or where it grew too large). Only the segments of the
// last steps stay. A segment that is let go is read once more: its steps leave a summary each, and `standing()` moves
// on to what holds at the beginning of the oldest segment that is kept.
//
//   head | summaries | standing() announced | segment | segment | ...          is a whole trace, at any time
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "trace/encode.h"
#include "trace/standing.h"

namespace spillway {

class Tail {
 public:
  Tail(std::uint32_t last_steps, Bytes most) : last_steps_(last_steps), most_(most), segments_(1) {}

  // A block that stays on record before the tail begins.
  void pass(std::span<const std::uint8_t> block);
  // No more of those: from here on blocks are kept.
  void begin();

  void keep(std::span<const std::uint8_t> block);
  // A step of one of `jobs` jobs ended with the last block: lets go of what is too old or too much.
  void end_step(std::size_t jobs);
  // A block was kept in mid-step: lets go of the oldest segments if the tail has grown beyond its bound.
  void bound();

  // Something was let go since the last take_summaries().
  [[nodiscard]] bool behind() const { return behind_; }
  [[nodiscard]] std::vector<StepSummary> take_summaries();
  [[nodiscard]] const Standing& standing() const { return standing_; }
  [[nodiscard]] Bytes size() const { return size_; }

  template <class Take>
  void each_segment(Take&& take) const {
    for (const Segment& segment : segments_) take(std::span<const std::uint8_t>(segment.blocks));
  }

 private:
  struct Segment {
    std::vector<std::uint8_t> blocks;
    std::uint32_t steps = 0;  // that ended in it
  };

  void observe(std::span<const std::uint8_t> blocks);
  void let_go();
  void open_segment();

  std::uint32_t last_steps_;
  Bytes most_;
  Bytes size_;
  std::vector<Segment> segments_;  // oldest first; the last one is open
  std::vector<std::vector<std::uint8_t>> spare_;
  std::size_t steps_ = 0;  // ended in the kept segments
  Standing standing_;
  EventScratch scratch_;
  bool behind_ = false;
};

}  // namespace spillway
