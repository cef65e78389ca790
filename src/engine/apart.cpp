#include "engine/apart.h"

#include <algorithm>

#include "engine/engine.h"

namespace spillway {

Range Apart::find(Bytes size) const {
  Bytes begin = low_;
  for (auto next = taken_.lower_bound(low_); next != taken_.end() && begin + size > next->first; ++next) begin = next->second;
  return {begin, begin + size};
}

void Apart::took(Range range) {
  if (!is_there() || range.begin < from_) return;
  taken_[range.begin] = range.end;
  for (auto next = taken_.find(low_); next != taken_.end(); next = taken_.find(low_)) low_ = next->second;
}

void Apart::freed(Range range) {
  if (range.begin < from_) return;  // nearly all: no search for those
  if (taken_.erase(range.begin) > 0) low_ = std::min(low_, range.begin);
}

// A copy on the device where there is room for it; where there is none it leaves, and its way home leads there.
void Engine::set_apart(Record* record, Lock& lock) {
  minutes_.note(CallKind::set_apart, record);
  if (!options_.budget || child_ || !apart_.is_there() || record->exposed() || record->apart) return;
  if (record->residence == Residence::away || record->residence == Residence::dropped) {
    record->apart = true;
    return;
  }
  if (!may_leave(*record) || record->orphan) return;
  ++record->refs;
  const std::uint32_t shown = record->shown;
  const auto [held, named] = hold(*record, lock);
  if (held != nullptr && !named && record->shown == shown && may_leave(*record) && may_detach(*record)) {
    record->apart = try_copy_apart(*record) || (is_tight() && let_go(*record, Leave::move, std::nullopt));
  }
  lock.unlock();
  if (held != nullptr) owner_.unhold(held);
  lock.lock();
  unref(record);
}

bool Engine::try_copy_apart(Record& record) {
  const auto block = arena_.try_allocate_at(apart_.find(round_up(record.size, options_.alignment)), compute_);
  if (commits_ != arena_.commits()) note_reserved();
  if (!block) return false;
  for (const Tick tick : last_uses(record)) device_.wait(compute_, tick);
  device_.copy(compute_, {Tier::device, block->range.begin}, {Tier::device, record.block.range.begin}, record.size);
  const Tick copied = device_.record(compute_);
  const Block before = record.block;
  give_back(record);
  free_block(before, {&copied, 1});
  apart_.took(block->range);
  record.streams = meet(compute_);
  settle(record, *block);
  owner_.attach(record);
  return true;
}

}  // namespace spillway
