#include "engine/opening.h"

#include <algorithm>
#include <iterator>

namespace spillway {

namespace {

constexpr std::size_t kMostOps = std::size_t{1} << 19;  // 4 MiB: what goes on longer is no step
constexpr std::size_t kLeastParts = 4;    // of the planned step: less in common is not worth joining it
constexpr std::size_t kBeginParts = 16, kLeastBegin = 3;  // the same, and ops, of the stretch it begins with
constexpr std::size_t kMostSkipped = 64, kMostOther = 4096;  // ops of the planned step that its run's first one lacks, and the other way round
constexpr std::size_t kAlike = 8;         // ops in a row that show where both go on
constexpr std::size_t kMostEntries = 256;

using Keys = std::span<const std::uint64_t>;

std::uint64_t mix(std::uint64_t sum, std::uint64_t key) { return (sum ^ key) * 0x9E3779B97F4A7C15ull + 1; }

std::uint64_t sum_of(Keys keys) {
  std::uint64_t sum = 0;
  for (const std::uint64_t key : keys) sum = mix(sum, key);
  return sum;
}

// By place of `all`: how many of its keys from there on are those it begins with (the Z function).
std::vector<std::size_t> count_alike(Keys all) {
  std::vector<std::size_t> alike(all.size());
  std::size_t begin = 0, end = 0;  // the stretch known to be alike that reaches farthest
  for (std::size_t at = 1; at < all.size(); ++at) {
    if (at < end) alike[at] = std::min(end - at, alike[at - begin]);
    while (at + alike[at] < all.size() && all[alike[at]] == all[at + alike[at]]) ++alike[at];
    if (at + alike[at] > end) begin = at, end = at + alike[at];
  }
  return alike;
}

// What the planned step begins with is what is told of the step before, as its loss: the first has none before it.
std::optional<Entry> find_begin(Keys first, Keys planned) {
  const std::size_t least = std::min(planned.size(), std::max(kLeastBegin, planned.size() / kBeginParts));
  std::vector<std::uint64_t> all;
  for (std::size_t next = 0; next < std::min(planned.size(), kMostSkipped); ++next) {
    all.assign(planned.begin() + static_cast<std::ptrdiff_t>(next), planned.end());
    all.insert(all.end(), first.begin(), first.end());
    const std::size_t rest = planned.size() - next;
    if (rest < least) break;
    const std::vector<std::size_t> alike = count_alike(all);
    const auto longest = std::max_element(alike.begin() + static_cast<std::ptrdiff_t>(rest), alike.end());
    if (longest == alike.end() || *longest < least) continue;
    return Entry{.at = static_cast<std::uint64_t>(longest - alike.begin()) - rest, .next = next, .sum = 0};
  }
  return std::nullopt;
}

// How many ops of each to leave out until both go on alike: as few as that takes.
std::optional<std::pair<std::size_t, std::size_t>> find_skip(Keys first, Keys planned) {
  for (std::size_t both = 1; both <= kMostOther; ++both) {
    for (std::size_t skipped = 0; skipped <= std::min(both, kMostSkipped) && skipped < planned.size(); ++skipped) {
      const std::size_t other = both - skipped, length = std::min(kAlike, planned.size() - skipped);
      if (other + length <= first.size() && std::ranges::equal(first.subspan(other, length), planned.subspan(skipped, length))) return std::pair(other, skipped);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Entry> find_entries(Keys first, Keys planned) {
  const auto begin = find_begin(first, planned);
  if (!begin) return {};
  std::vector<Entry> entries;
  std::size_t at = begin->at, next = begin->next, common = 0;
  for (;;) {
    entries.push_back({.at = at, .next = next, .sum = 0});
    for (; at < first.size() && next < planned.size() && first[at] == planned[next]; ++at, ++next) ++common;
    const auto skip = entries.size() < kMostEntries ? find_skip(first.subspan(at), planned.subspan(next)) : std::nullopt;
    if (!skip) break;
    at += skip->first;
    next += skip->second;
  }
  if (common < planned.size() / kLeastParts) return {};
  std::uint64_t sum = 0;
  std::size_t summed = 0;
  for (Entry& entry : entries) {
    for (; summed < entry.at; ++summed) sum = mix(sum, first[summed]);
    entry.sum = sum;
  }
  return entries;
}

void Opening::add(OpKey key) {
  sized_ = mix(sized_, key.sized);
  shape_ = mix(shape_, key.shape);
  if (++ops_ <= kBegin) begin_ = shape_;
  if (ops_ <= kMostOps) keys_.push_back(key.sized);
  else keys_ = {};
}

const KeptRun* Opening::find(StepKey key) const {
  const auto found = std::ranges::find(found_, key, &KeptRun::key);
  return found == found_.end() ? nullptr : &*found;
}

// Where a stretch begins here, or has begun and was found only now.
const Entry* Opening::find_entry(const KeptRun& run, bool fresh) const {
  const auto after = std::ranges::upper_bound(run.entries, ops_, {}, &Entry::at);
  if (after == run.entries.begin()) return nullptr;
  const Entry& last = *std::prev(after);
  return last.at == ops_ || fresh ? &last : nullptr;
}

// Where the step was, so far, what it was in the run that left this.
std::optional<std::size_t> Opening::find_next(const KeptRun& run, const Entry& entry) const {
  if (keys_.size() != ops_ || entry.at > ops_) return std::nullopt;
  const Keys seen(keys_), since = seen.subspan(entry.at), planned(run.script->lines().keys);
  if ((since.empty() ? sized_ : sum_of(seen.first(entry.at))) != entry.sum) return std::nullopt;
  const bool goes_on = since.size() < planned.size() && entry.next < planned.size() - since.size();
  if (!goes_on || !std::ranges::equal(since, planned.subspan(entry.next, since.size()))) return std::nullopt;
  return entry.next + since.size();
}

std::optional<Opening::Joint> Opening::find_joint(OpKey key) {
  const bool fresh = std::exchange(fresh_, false);
  for (const KeptRun& run : found_) {
    const Entry* entry = run.script ? find_entry(run, fresh) : nullptr;
    const auto next = entry != nullptr ? find_next(run, *entry) : std::nullopt;
    if (next && run.script->is_next(*next, key)) return Joint{&run, *next};
  }
  return std::nullopt;
}

}  // namespace spillway
