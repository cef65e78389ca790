#include "trace/tail.h"

#include <utility>

#include "trace/block.h"

namespace spillway {
namespace {

Bytes bytes_of(const std::vector<std::uint8_t>& blocks) { return {static_cast<std::int64_t>(blocks.size())}; }

}  // namespace

void Tail::observe(std::span<const std::uint8_t> blocks) {
  decode_blocks(blocks, scratch_, [&](const auto& event) { standing_.observe(event); });
}

void Tail::pass(std::span<const std::uint8_t> block) { observe(block); }

void Tail::begin() {
  standing_.forget_texts();
  std::ignore = standing_.take_summaries();  // those steps are on record whole
}

void Tail::keep(std::span<const std::uint8_t> block) {
  auto& blocks = segments_.back().blocks;
  blocks.insert(blocks.end(), block.begin(), block.end());
  size_ += Bytes{static_cast<std::int64_t>(block.size())};
}

void Tail::open_segment() {
  Segment fresh;
  if (!spare_.empty()) {
    fresh.blocks = std::move(spare_.back());
    spare_.pop_back();
  }
  segments_.push_back(std::move(fresh));
}

void Tail::let_go() {
  Segment& oldest = segments_.front();
  observe(oldest.blocks);
  size_ -= bytes_of(oldest.blocks);
  steps_ -= oldest.steps;
  oldest.blocks.clear();
  spare_.push_back(std::move(oldest.blocks));
  segments_.erase(segments_.begin());
  behind_ = true;
}

void Tail::end_step(std::size_t jobs) {
  ++segments_.back().steps;
  ++steps_;
  open_segment();
  while (steps_ > last_steps_ * jobs) let_go();
  bound();
}

// An eighth, so that a step without end loses its oldest eighth at a time and not all of itself.
void Tail::bound() {
  if (bytes_of(segments_.back().blocks) > most_ / 8) open_segment();
  while (size_ > most_ && segments_.size() > 1) let_go();
}

std::vector<StepSummary> Tail::take_summaries() {
  behind_ = false;
  return standing_.take_summaries();
}

}  // namespace spillway
