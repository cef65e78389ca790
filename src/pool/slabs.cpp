#include "pool/slabs.h"

#include <algorithm>
#include <bit>

namespace spillway {

void Slabs::set_largest(Bytes largest) { largest_ = round_down(largest, space_.alignment()); }

Bytes Slabs::slot_for(Bytes size) const {
  const Bytes unit = space_.alignment();
  if (size > largest_ / kFewestSlots) return {};
  size = round_up(size, unit);
  if (size * kFewestSlots > largest_) return {};
  const auto units = static_cast<std::uint64_t>(size / unit);
  const int spare_bits = std::max(0, 60 - std::countl_zero(units));  // below the leading one and three more
  const Bytes step = unit * (std::int64_t{1} << spare_bits);
  return round_up(size, step);
}

Bytes Slabs::next_length(Bytes slot) const {
  const auto held = held_.find(slot);
  const Bytes wanted = held == held_.end() ? Bytes{} : held->second;
  return round_down(std::clamp(wanted, std::min(slot * kFirstSlots, largest_), largest_), slot);
}

ChunkId Slabs::open(ChunkId chunk, Bytes slot) {
  std::uint32_t number = static_cast<std::uint32_t>(slabs_.size());
  if (unused_.empty()) {
    slabs_.emplace_back();
  } else {
    number = unused_.back();
    unused_.pop_back();
  }
  Slab& slab = slabs_[number];
  slab.chunk = chunk;
  slab.slot = slot;
  ChunkTable& chunks = space_.chunks();
  chunks[chunk].state = ChunkState::slab;
  chunks[chunk].slab = number;
  for (Bytes begin = chunks[chunk].begin; begin < chunks[chunk].end(); begin += slot) {
    const ChunkId id = chunks.create();
    chunks[id].begin = begin;
    chunks[id].size = slot;
    chunks[id].uses = space_.syncs().copy(chunks[chunk].uses);
    chunks[id].slab = number;
    chunks[id].state = ChunkState::free_slot;
    slab.slots.push_back(id);
    insert(id);
  }
  space_.syncs().clear(chunks[chunk].uses);
  held_[slot] += chunks[chunk].size;
  ++empty_;
  return slab.slots.front();
}

void Slabs::take(ChunkId slot) {
  slots_.erase(slot.index);
  Chunk& chunk = space_.chunks()[slot];
  chunk.state = ChunkState::used_slot;
  if (slabs_[chunk.slab].live++ == 0) --empty_;
}

void Slabs::release(ChunkId slot) {
  insert(slot);
  Chunk& chunk = space_.chunks()[slot];
  chunk.state = ChunkState::free_slot;
  if (--slabs_[chunk.slab].live == 0) ++empty_;
}

bool Slabs::dissolve_empty() {
  if (empty_ == 0) return false;
  for (Slab& slab : slabs_) {
    if (slab.chunk.valid() && slab.live == 0) dissolve(slab);
  }
  return true;
}

void Slabs::dissolve(Slab& slab) {
  ChunkTable& chunks = space_.chunks();
  SyncStore& syncs = space_.syncs();
  for (const ChunkId slot : slab.slots) {
    slots_.erase(slot.index);
    syncs.merge(chunks[slab.chunk].uses, chunks[slot].uses);
    syncs.clear(chunks[slot].uses);
    chunks.destroy(slot);
  }
  slab.slots.clear();
  held_[slab.slot] -= chunks[slab.chunk].size;
  unused_.push_back(chunks[slab.chunk].slab);
  space_.release(slab.chunk);
  slab.chunk = {};
  --empty_;
}

void Slabs::insert(ChunkId slot) {
  const Chunk& chunk = space_.chunks()[slot];
  const std::uint64_t tick = chunk.uses.single() ? chunk.uses.only.value : 0;
  slots_.insert(slot.index, shelf_of(chunk.uses), {.size = chunk.size, .address = chunk.begin, .tick = tick});
}

void Slabs::verify() const {
  slots_.verify();
  std::int64_t free_slots = 0, empty = 0, in_use = 0;
  std::map<Bytes, Bytes> held;
  for (const Slab& slab : slabs_) {
    if (!slab.chunk.valid()) continue;
    verify_slab(slab, free_slots);
    held[slab.slot] += space_.chunks()[slab.chunk].size;
    empty += slab.live == 0 ? 1 : 0;
    ++in_use;
  }
  SPILLWAY_ENSURE(in_use + std::ssize(unused_) == std::ssize(slabs_), "slab numbers are in use or unused");
  SPILLWAY_ENSURE(empty == empty_, "empty slabs are counted");
  for (const auto& [slot, bytes] : held_) SPILLWAY_ENSURE(held[slot] == bytes, "the bytes of slabs are summed by slot");
  std::int64_t indexed = 0;
  for (std::uint32_t shelf = 0; shelf < slots_.shelves(); ++shelf) indexed += slots_.count(shelf);
  SPILLWAY_ENSURE(indexed == free_slots, "exactly the free slots are in the index");
}

void Slabs::verify_slab(const Slab& slab, std::int64_t& free_slots) const {
  const ChunkTable& chunks = space_.chunks();
  const Chunk& whole = chunks[slab.chunk];
  SPILLWAY_ENSURE(whole.state == ChunkState::slab && &slabs_[whole.slab] == &slab,
                  "a slab and its chunk know each other");
  SPILLWAY_ENSURE(slab.slot * std::ssize(slab.slots) == whole.size, "slots tile their slab");
  std::int64_t live = 0;
  Bytes begin = whole.begin;
  for (const ChunkId id : slab.slots) {
    const Chunk& slot = chunks[id];
    SPILLWAY_ENSURE(slot.begin == begin && slot.size == slab.slot && slot.slab == whole.slab,
                    "a slot lies in its place");
    const bool free = slot.state == ChunkState::free_slot;
    SPILLWAY_ENSURE(free || slot.state == ChunkState::used_slot, "a slot is used or free");
    SPILLWAY_ENSURE(free == slots_.contains(id.index), "a slot is in the index while it is free");
    if (free) {
      const FreeIndex::Entry& entry = slots_[id.index];
      SPILLWAY_ENSURE(entry.size == slot.size && entry.address == slot.begin, "the index knows where a slot is");
      SPILLWAY_ENSURE(slots_.shelf(id.index) == shelf_of(slot.uses),
                      "a free slot stands on the shelf of its last uses");
    }
    live += free ? 0 : 1;
    free_slots += free ? 1 : 0;
    begin += slab.slot;
  }
  SPILLWAY_ENSURE(live == slab.live, "a slab counts its used slots");
}

}  // namespace spillway
