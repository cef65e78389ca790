#include "engine/layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace spillway {

namespace {

// For what is not placed, and the rest of its granules, of which there are some at any time: a part of the limit, a larger one
// where that is little.
constexpr std::int64_t kMarginParts = 200, kLargerParts = 64, kMarginGranules = 2;
constexpr Bytes kLittle = 32_MiB;

Bytes margin_of(const Ground& ground) {
  return std::max({ground.limit / kMarginParts, std::min(ground.limit / kLargerParts, kLittle), ground.granule * kMarginGranules});
}

// The op before which everybody has left the place of a block who is there before it in the step. Whoever gives its block back
// has done so when the op is over in which the next one is taken.
std::uint32_t free_before(std::uint32_t block, std::span<const PlannedBlock> blocks, std::span<const Bytes> offsets) {
  const auto place = [&](std::size_t at) { return Range{offsets[at], offsets[at] + blocks[at].there.size}; };
  const std::uint32_t begin = blocks[block].there.begin;
  std::uint32_t last = 0;
  for (std::size_t at = 0; at < blocks.size(); ++at) {
    const std::uint32_t end = blocks[at].there.end;
    if (at != block && end <= begin && place(at).overlaps(place(block))) last = std::max(last, end);
  }
  std::uint32_t during = blocks[block].during;
  for (const PlannedBlock& next : blocks) {
    if (next.there.begin > last) during = std::min(during, next.during);
  }
  return last == 0 ? 0 : during;
}

}  // namespace

Places find_places(const BlockList& list, std::uint32_t ops, const Ground& ground) {
  const std::span<const PlannedBlock> blocks = list.blocks;
  Places places;
  places.room = ground.limit - std::max(list.elsewhere + list.small + margin_of(ground), ground.open);
  Bytes lasting;
  for (const LastingBlock& block : list.lasting) {
    const Bytes size = round_up(block.size, ground.alignment);
    places.lasting.push_back({block.storage, size, ground.from + lasting});
    lasting += size;
  }
  std::ranges::sort(places.lasting, {}, &Places::Lasting::storage);
  std::vector<Presence> there;
  for (const PlannedBlock& block : blocks) {
    there.push_back(block.there);
    there.back().size = round_up(block.there.size, ground.alignment);
  }
  const Placement placed = place(there, places.room - lasting);
  places.top = lasting + placed.top;
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
      if (gap != kNoPlace) places.free_from.resize(places.of_gap.size()), places.free_from[gap] = free_before(*next, blocks, placed.offsets);
      places.entries.push_back({there[*next].size, ground.from + lasting + placed.offsets[*next], gap});
    }
  }
  places.first.push_back(static_cast<std::uint32_t>(places.entries.size()));
  return places;
}

bool Places::lie_in(Range range) const {
  const auto lies = [&](const auto& one) { return one.size > 0_B && one.offset >= range.begin && one.offset <= range.end && one.size <= range.end - one.offset; };
  return std::ranges::all_of(entries, lies) && std::ranges::all_of(lasting, lies);
}

void Layout::use(std::shared_ptr<const Places> places) {
  places_ = std::move(places);
  ++uses_;
  begin_step(/*on=*/false);
}

void Layout::begin_step(bool on) {
  on_ = on;
  op_ = 0;
  misses_ = 0;
  taken_.assign(places_ ? places_->entries.size() : 0, false);
}

std::optional<Layout::Place> Layout::find_place(Bytes size, std::uint32_t gap) const {
  if (!on_ || !places_ || size < kSmallest || op_ + 1 >= places_->first.size()) return std::nullopt;
  const auto place = [&](std::uint32_t entry) {
    const Bytes offset = places_->entries[entry].offset;
    return Place{entry, {offset, offset + size}};
  };
  if (gap != kNoPlace) {  // early or late, its place is the same
    const std::uint32_t entry = gap < places_->of_gap.size() ? places_->of_gap[gap] : kNoPlace;
    return entry != kNoPlace && is_free(entry, size) ? std::optional(place(entry)) : std::nullopt;
  }
  for (std::uint32_t at = places_->first[op_]; at < places_->first[op_ + 1]; ++at) {
    if (places_->entries[at].gap == kNoPlace && is_free(at, size)) return place(at);
  }
  return std::nullopt;
}

std::optional<Layout::Place> Layout::find_lasting_place(StorageId storage, Bytes size) const {
  if (!places_) return std::nullopt;
  const auto found = std::ranges::lower_bound(places_->lasting, storage, {}, &Places::Lasting::storage);
  if (found == places_->lasting.end() || found->storage != storage || found->size != size) return std::nullopt;
  return Place{.range = {found->offset, found->offset + size}};
}

void Layout::took(ChunkId chunk, Bytes size, const std::optional<Place>& place) {
  if (!place) {
    misses_ += on_ && size >= kSmallest ? 1 : 0;
    return;
  }
  if (place->entry != kNoPlace) taken_[place->entry] = true;
  if (by_chunk_.size() <= chunk.index) by_chunk_.resize(chunk.index + 1);
  by_chunk_[chunk.index] = uses_;
}

void Layout::freed(ChunkId chunk) {
  if (chunk.index < by_chunk_.size()) by_chunk_[chunk.index] = 0;
}

}  // namespace spillway
