#include "engine/opening.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace spillway {

namespace {

constexpr std::size_t kMostOps = std::size_t{1} << 19;  // 4 MiB: what goes on longer is no step
constexpr std::size_t kLeastParts = 4;    // of the planned step: less in common is not worth joining it
constexpr std::size_t kTaken = 16;        // ops in a row that show where the first step takes to it,
constexpr std::size_t kAlike = 8;         // and where both go on
constexpr std::size_t kMostSkipped = 64, kMostOther = 4096;  // ops of the planned step that its run's first one lacks, and the other way round
constexpr std::size_t kMostEntries = 256;

using Keys = std::span<const std::uint64_t>;

std::uint64_t mix(std::uint64_t sum, std::uint64_t key) { return (sum ^ key) * 0x9E3779B97F4A7C15ull + 1; }

std::uint64_t sum_of(Keys keys) {
  std::uint64_t sum = 0;
  for (const std::uint64_t key : keys) sum = mix(sum, key);
  return sum;
}

// What the planned step begins with, the loss of the step before or gradients that are set to zero, is nothing the first one does.
std::optional<Entry> find_begin(Keys first, Keys planned) {
  const std::size_t length = std::clamp<std::size_t>(planned.size() / kLeastParts, 1, kTaken);
  std::unordered_map<std::uint64_t, std::size_t> places;  // in the first step, of so many ops in a row
  for (std::size_t at = 0; at + length <= first.size(); ++at) places.try_emplace(sum_of(first.subspan(at, length)), at);
  for (std::size_t next = 0; next + length <= planned.size(); ++next) {
    if (const auto place = places.find(sum_of(planned.subspan(next, length))); place != places.end()) return Entry{.at = place->second, .next = next, .sum = 0};
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
