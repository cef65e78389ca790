#include "engine/layout.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/signals.h"

namespace spillway {

namespace {

// Of the limit, for what is not placed: small blocks, and the rest of their granules.
constexpr std::int64_t kMarginParts = 100;

}  // namespace

Places find_places(std::span<const PlannedBlock> blocks, std::uint32_t ops, Bytes elsewhere, const Ground& ground) {
  Places places;
  places.room = ground.limit - elsewhere - ground.limit / kMarginParts;
  std::vector<Presence> there;
  for (const PlannedBlock& block : blocks) {
    there.push_back(block.there);
    there.back().size = round_up(block.there.size, ground.alignment);
  }
  const Placement placed = place(there, places.room);
  places.top = placed.top;
  std::vector<std::uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t at) { return blocks[at].during; });
  auto next = order.begin();
  for (std::uint32_t during = 0; during <= ops; ++during) {
    places.first.push_back(static_cast<std::uint32_t>(places.entries.size()));
    for (; next != order.end() && blocks[*next].during == during; ++next) {
      const std::uint32_t gap = blocks[*next].gap;
      if (gap != kNoPlace && places.of_gap.size() <= gap) places.of_gap.resize(gap + 1, kNoPlace);
      if (gap != kNoPlace) places.of_gap[gap] = static_cast<std::uint32_t>(places.entries.size());
      places.entries.push_back({there[*next].size, ground.from + placed.offsets[*next], gap});
    }
  }
  places.first.push_back(static_cast<std::uint32_t>(places.entries.size()));
  return places;
}

void Layout::begin_step(bool on) {
  before_ = std::exchange(now_, {});
  ends_.assign(before_.blocks.size(), kStillThere);
  on_ = on;
  ++step_;
  op_ = 0;
  now_.first = now_.begin = {0};
  misses_ = 0;
  taken_.assign(places_ ? places_->entries.size() : 0, false);
}

// Place 0 is before the first op.
void Layout::begin_op(std::uint32_t op) {
  if (!on_) return;
  op_ = op + 1;
  now_.first.push_back(static_cast<std::uint32_t>(now_.blocks.size()));
  now_.begin.push_back(now_.positions);
}

std::optional<Layout::Place> Layout::find_place(Bytes size, std::uint32_t gap) const {
  if (!on_ || !places_ || size < kSmallest || op_ + 1 >= places_->first.size()) return std::nullopt;
  const auto offset = [&](std::uint32_t entry) { return places_->entries[entry].offset; };
  if (gap != kNoPlace) {  // early or late, its place is the same
    const std::uint32_t entry = gap < places_->of_gap.size() ? places_->of_gap[gap] : kNoPlace;
    return entry != kNoPlace && is_free(entry, size) ? std::optional(Place{entry, offset(entry)}) : std::nullopt;
  }
  for (std::uint32_t at = places_->first[op_]; at < places_->first[op_ + 1]; ++at) {
    if (places_->entries[at].gap == kNoPlace && is_free(at, size)) return Place{at, offset(at)};
  }
  return std::nullopt;
}

void Layout::took(ChunkId chunk, Bytes size, const std::optional<Place>& place, std::uint32_t gap) {
  if (!on_ || size < kSmallest) return;
  if (place) taken_[place->entry] = true;
  else ++misses_;
  if (by_chunk_.size() <= chunk.index) by_chunk_.resize(chunk.index + 1);
  by_chunk_[chunk.index] = {step_, static_cast<std::uint32_t>(now_.blocks.size())};
  now_.blocks.push_back({.size = size, .op = op_, .gap = gap, .begin = now_.positions++});
}

Layout::Name Layout::forget_chunk(ChunkId chunk) {
  return chunk.index < by_chunk_.size() ? std::exchange(by_chunk_[chunk.index], {}) : Name{};
}

Layout::Block* Layout::find(Name name) {
  if (name.step == step_ && name.entry < now_.blocks.size()) return &now_.blocks[name.entry];
  return nullptr;
}

void Layout::freed(ChunkId chunk, bool way_out) { ended(forget_chunk(chunk), way_out); }

void Layout::ended(Name name, bool way_out) {
  if (name.step + 1 == step_ && name.entry < ends_.size()) ends_[name.entry] = now_.positions++;
  Block* block = find(name);
  if (block == nullptr) return;
  block->end = now_.positions++;
  block->end_op = op_;
  block->way_out = way_out;
}

Layout::Name Layout::suspend(ChunkId chunk) { return forget_chunk(chunk); }

void Layout::resume(ChunkId chunk, Name name) {
  if (name.step == 0) return;
  if (Block* extra = find(forget_chunk(chunk))) extra->size = {};
  if (by_chunk_.size() <= chunk.index) by_chunk_.resize(chunk.index + 1);
  by_chunk_[chunk.index] = name;
}

bool Layout::end_step(bool followed) {
  now_.complete = followed && on_;
  return now_.complete && before_.complete && before_.first.size() == now_.first.size();
}

// A block that is still there at the end stays as long as the one that was taken in its stead a step before. One whose
// like has not gone yet is struck out: it stays for good, or nobody knows for how long.
void Layout::learn_ends() {
  for (std::uint32_t at = 0; at < now_.blocks.size(); ++at) {
    Block& block = now_.blocks[at];
    if (block.end != kStillThere || block.size == Bytes{}) continue;
    const std::uint32_t like = before_.first[block.op] + (at - now_.first[block.op]);
    const bool same = like < before_.blocks.size() && before_.blocks[like].op == block.op &&
                      before_.blocks[like].size == block.size && before_.blocks[like].end == kStillThere;
    const std::uint32_t end = same ? ends_[like] : kStillThere;
    if (end == kStillThere || end > block.begin) block.size = {};
    else block.end = end;
  }
}

// Until its copy is done nobody wants a place: whoever gets it would have to wait.
void Layout::add_ways_out(const Task& task) {
  std::vector<Block*> leaving;
  for (Block& block : now_.blocks) {
    if (block.way_out && block.size > Bytes{} && block.end > block.begin) leaving.push_back(&block);
  }
  std::ranges::sort(leaving, {}, &Block::end);
  Nanos link_free;
  for (Block* block : leaving) {
    const Nanos begin = task.starts[std::min<std::size_t>(block->end_op, task.starts.size() - 1)];
    const auto took = static_cast<std::int64_t>(static_cast<double>(block->size.count) * task.out_nanos_per_byte);
    link_free = std::max(link_free, begin) + Nanos{took};
    const auto op = static_cast<std::size_t>(std::ranges::lower_bound(task.starts, link_free) - task.starts.begin());
    const std::uint32_t end = op + 1 < now_.begin.size() ? now_.begin[op + 1] : now_.positions;
    block->end = std::max(block->end, end);
  }
}

void Layout::start_placing(const Task& task) {
  learn_ends();
  std::vector<PlannedBlock> soon, late;  // places given on as soon as they are given back, or when the copy has ended
  Bytes elsewhere = task.live;
  for (const Block& block : now_.blocks) {
    if (block.size == Bytes{}) continue;
    soon.push_back({.there = {block.size, block.begin, block.end}, .during = block.op, .gap = block.gap});
    if (block.end <= block.begin) elsewhere -= block.size;
  }
  add_ways_out(task);
  for (const Block& block : now_.blocks) {
    if (block.size > Bytes{}) late.push_back({.there = {block.size, block.begin, block.end}, .during = block.op, .gap = block.gap});
  }
  const auto ops = static_cast<std::uint32_t>(now_.first.size() - 1);
  const auto work = [soon = std::move(soon), late = std::move(late), ops, elsewhere, ground = task.ground] {
    Places places = find_places(late, ops, elsewhere, ground);
    if (!places.fits()) places = find_places(soon, ops, elsewhere, ground);
    return std::make_shared<const Places>(std::move(places));
  };
  if (task.at_once) {
    std::promise<std::shared_ptr<const Places>> found;
    found.set_value(work());
    coming_ = found.get_future();
    return;
  }
  coming_ = std::async(std::launch::async, [work] {
    leave_signals_to_others();
    return work();
  });
}

std::shared_ptr<const Places> Layout::take_places() {
  if (!coming_.valid() || coming_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return nullptr;
  auto places = coming_.get();
  return std::exchange(stale_, false) ? nullptr : places;
}

void Layout::forget() {
  before_ = now_ = {};
  places_.reset();
  stale_ = coming_.valid();
}

}  // namespace spillway
