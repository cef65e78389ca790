#include "plan/blocks.h"

#include <algorithm>

#include "liveness/liveness.h"
#include "plan/timeline.h"

namespace spillway {

void BlockLog::open(std::uint32_t storage, Bytes size, std::uint32_t during, bool first) {
  latest_[storage] = open_workspace(size, during);
  entries_.back().first = first;
  entries_.back().storage = storage;
  if (first) first_[storage] = latest_[storage];
}

std::uint32_t BlockLog::open_workspace(Bytes size, std::uint32_t during) {
  entries_.push_back({.block = {.there = {.size = size, .begin = positions_++, .end = kOpen}, .during = during}});
  return static_cast<std::uint32_t>(entries_.size() - 1);
}

void BlockLog::end(std::uint32_t block) {
  if (block != kNone && entries_[block].block.there.end == kOpen) entries_[block].block.there.end = positions_++;
}

// Who is there at the end goes on as the one that was there at the beginning, and stays as long as that one did.
void BlockLog::link_to_next_step(std::uint32_t at, std::uint32_t first, Bytes& elsewhere) {
  Entry& entry = entries_[at];
  const std::uint32_t end = first == kNone ? kOpen : entries_[first].block.there.end;
  if (end <= entry.block.there.begin) {
    entry.block.there.end = end;
    entries_[first].left_out = true;
  } else {
    elsewhere += entry.block.there.size;
    entry.left_out = true;
  }
}

Bytes BlockLog::peak_below(Bytes smallest) const {
  std::vector<std::pair<std::uint32_t, Bytes>> changes;
  for (const Entry& entry : entries_) {
    const Presence& there = entry.block.there;
    if (entry.left_out || entry.first || there.end == kOpen || there.size >= smallest) continue;
    changes.emplace_back(there.begin, there.size);
    changes.emplace_back(there.end, -there.size);
  }
  std::ranges::sort(changes, {}, [](const auto& change) { return change.first; });
  Bytes now, most;
  for (const auto& [position, more] : changes) most = std::max(most, now += more);
  return most;
}

BlockList BlockLog::take(const Liveness& step, Bytes smallest) {
  BlockList list;
  for (std::uint32_t at = 0; at < step.storage_count(); ++at) {
    const LiveStorage& storage = step.storages()[at];
    const std::uint32_t block = latest_[at];
    if (block == kNone || entries_[block].first) continue;
    const std::uint32_t of_next = storage.next == kNoPlace ? kNone : first_[storage.next];
    const std::uint32_t first = of_next == kNone && !storage.before ? first_[at] : of_next;  // its own: it died on its way out
    if (!storage.after && first == kNone) continue;
    // Whose way out ends before the step does is not there when the next begins, though the timeline, to be sure, says so.
    if (entries_[block].block.there.end == kOpen) link_to_next_step(block, first, list.elsewhere);
    else if (first != kNone) entries_[first].left_out = true;
  }
  for (const Entry& entry : entries_) {
    if (entry.left_out) continue;
    const LiveStorage* storage = entry.storage == kNone ? nullptr : &step.storages()[entry.storage];
    const bool lasts = entry.first && entry.block.there.end == kOpen && storage->kind != StorageKind::workspace;
    if (lasts && storage->size >= smallest) {
      list.lasting.push_back({storage->id, storage->size});
      continue;
    }
    if (entry.first || entry.block.there.end == kOpen) list.elsewhere += entry.block.there.size;
    else if (entry.block.there.size >= smallest) list.blocks.push_back(entry.block);
  }
  list.small = peak_below(smallest);
  return list;
}

BlockList list_blocks(const PlanRequest& request, const Plan& plan, Bytes smallest) {
  const Problem problem(request);
  Timeline timeline(problem);
  BlockLog log(request.step.storage_count());
  (void)timeline.run(choices_of(problem, plan), &log);
  BlockList list = log.take(request.step, smallest);
  std::vector<std::uint32_t> planned(problem.gap_count(), kNoPlace);
  for (std::uint32_t at = 0; at < plan.gaps.size(); ++at) {
    if (const GapPlace gap = problem.find(plan.gaps[at].gap); gap != kNoPlace) planned[gap] = at;
  }
  for (PlannedBlock& block : list.blocks) {
    if (block.gap != kNoPlace) block.gap = planned[block.gap];
  }
  return list;
}

}  // namespace spillway
