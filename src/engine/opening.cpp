#include "engine/opening.h"

#include <algorithm>

namespace spillway {

namespace {

constexpr std::size_t kMostOps = std::size_t{1} << 19;  // 4 MiB: what goes on longer is no step
constexpr std::size_t kMostSkipped = 64;  // ops of the planned step that its run's first one lacks: what is told of the step before
constexpr std::size_t kLeastParts = 4;    // of the planned step: less in common is not worth joining it

std::uint64_t mix(std::uint64_t sum, std::uint64_t key) { return (sum ^ key) * 0x9E3779B97F4A7C15ull + 1; }

std::uint64_t sum_of(std::span<const std::uint64_t> keys) {
  std::uint64_t sum = 0;
  for (const std::uint64_t key : keys) sum = mix(sum, key);
  return sum;
}

// By place of `all`: how many of its keys from there on are those it begins with (the Z function).
std::vector<std::size_t> count_alike(std::span<const std::uint64_t> all) {
  std::vector<std::size_t> alike(all.size());
  std::size_t begin = 0, end = 0;  // the stretch known to be alike that reaches farthest
  for (std::size_t at = 1; at < all.size(); ++at) {
    if (at < end) alike[at] = std::min(end - at, alike[at - begin]);
    while (at + alike[at] < all.size() && all[alike[at]] == all[at + alike[at]]) ++alike[at];
    if (at + alike[at] > end) begin = at, end = at + alike[at];
  }
  return alike;
}

}  // namespace

std::optional<Entry> find_entry(std::span<const std::uint64_t> first, std::span<const std::uint64_t> planned) {
  std::optional<Entry> entry;
  std::size_t longest = planned.size() / kLeastParts;
  std::vector<std::uint64_t> all;
  for (std::size_t next = 0; next < std::min(planned.size(), kMostSkipped); ++next) {
    const auto rest = planned.subspan(next);
    all.assign(rest.begin(), rest.end());
    all.insert(all.end(), first.begin(), first.end());
    const std::vector<std::size_t> alike = count_alike(all);
    for (std::size_t at = 0; at < first.size(); ++at) {
      const std::size_t length = std::min(alike[rest.size() + at], rest.size());
      if (length <= longest) continue;
      longest = length;
      entry = Entry{.at = at, .next = next, .sum = 0};
    }
  }
  if (entry) entry->sum = sum_of(first.first(entry->at));
  return entry;
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

// The step was, so far, what it was in the run that left this.
bool Opening::has_led_to(const KeptRun& run) const {
  const std::span<const std::uint64_t> seen(keys_);
  if (run.entry.at > seen.size() || sum_of(seen.first(run.entry.at)) != run.entry.sum) return false;
  const auto since = seen.subspan(run.entry.at);
  const std::span<const std::uint64_t> planned(run.script->lines().keys);
  const bool goes_on = since.size() < planned.size() && run.entry.next < planned.size() - since.size();
  return goes_on && std::ranges::equal(since, planned.subspan(run.entry.next, since.size()));
}

// Looked for where a plan begins, and once when it was found later than that.
std::optional<Opening::Joint> Opening::find_joint(OpKey key) {
  const bool fresh = std::exchange(fresh_, false);
  for (const KeptRun& run : found_) {
    if (!run.script || !(run.entry.at == ops_ || (fresh && run.entry.at < ops_)) || !has_led_to(run)) continue;
    const std::size_t next = run.entry.next + (ops_ - run.entry.at);
    if (run.script->is_next(next, key)) return Joint{&run, next};
  }
  return std::nullopt;
}

}  // namespace spillway
