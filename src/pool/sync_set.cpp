#include "pool/sync_set.h"

#include "base/error.h"

namespace spillway {

void SyncStore::assign(SyncSet& set, std::span<const Tick> uses) {
  clear(set);
  if (uses.empty()) return;
  if (uses.size() == 1) {
    set.only = uses.front();
    return;
  }
  set.list = take_list();
  std::vector<Tick>& list = lists_[set.list];
  list.assign(uses.begin(), uses.end());
  std::ranges::sort(list, {}, &Tick::stream);
  const auto twice = std::ranges::adjacent_find(list, {}, &Tick::stream);
  SPILLWAY_ENSURE(twice == list.end(), "a chunk has at most one last use per stream");
}

void SyncStore::merge_lists(SyncSet& into, const SyncSet& from) {
  const auto a = uses(into), b = uses(from);
  merged_.clear();
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() || j != b.end()) {
    if (j == b.end() || (i != a.end() && i->stream < j->stream)) {
      merged_.push_back(*i++);
    } else if (i == a.end() || j->stream < i->stream) {
      merged_.push_back(*j++);
    } else {
      merged_.push_back({i->stream, merge_ticks(i->value, j->value)});
      ++i, ++j;
    }
  }
  assign(into, merged_);
}

std::uint32_t SyncStore::take_list() {
  if (unused_.empty()) {
    lists_.emplace_back();
    unused_.reserve(lists_.size());
    return static_cast<std::uint32_t>(lists_.size() - 1);
  }
  const std::uint32_t list = unused_.back();
  unused_.pop_back();
  return list;
}

void SyncStore::give_back(std::uint32_t list) {
  lists_[list].clear();
  unused_.push_back(list);
}

SyncSet SyncStore::copy_list(std::uint32_t list) {
  SyncSet result;
  result.list = take_list();
  lists_[result.list] = lists_[list];
  return result;
}

bool SyncStore::same_list_users(std::uint32_t a, std::uint32_t b) const {
  return std::ranges::equal(lists_[a], lists_[b], {}, &Tick::stream, &Tick::stream);
}

}  // namespace spillway
