#include "engine/leads.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace spillway {

namespace {

constexpr Nanos kLeast = 20_us;           // nobody is moved for less,
constexpr std::int64_t kLeastParts = 1000;  // nor for less than this part of the step
constexpr std::int64_t kMarginParts = 8;  // of what a way back is late: copies take now more, now less
constexpr int kMostTrials = 12;           // of one script
constexpr std::int64_t kLessTenths = 9;   // of what was waited before: a trial that left more is given up
constexpr std::int64_t kMoreTenths = 15;  // of what was waited in vain: then there is something new to try for

Nanos sum_above(std::span<const Nanos> late, Nanos least) {
  Nanos sum;
  for (const Nanos one : late) sum += one > least ? one : 0_ns;
  return sum;
}

}  // namespace

std::vector<OpPlace> plan_starts(std::span<const Coming> coming, std::span<const Nanos> starts) {
  std::vector<OpPlace> planned(coming.size());
  std::optional<Nanos> behind;  // when the next one begins that was moved
  for (std::size_t at = coming.size(); at-- > 0;) {
    const Coming& one = coming[at];
    Nanos wanted = starts[one.start];
    if (one.late > 0_ns) wanted -= one.late + one.late / kMarginParts;
    if (behind) wanted = std::min(wanted, *behind - one.copy);
    const auto after = std::ranges::upper_bound(starts, wanted) - starts.begin();
    planned[at] = std::clamp(static_cast<OpPlace>(std::max<std::ptrdiff_t>(after - 1, 0)), std::min(one.not_before, one.start), one.start);
    behind = wanted < starts[one.start] ? std::optional(starts[planned[at]]) : std::nullopt;
  }
  return planned;
}

void Leads::note(std::uint32_t gap, std::uint64_t step, Nanos late) {
  if (looks_at_ != step) return;
  if (late_.size() <= gap) late_.resize(gap + 1);
  late_[gap] += late;
}

void Leads::look_at(std::uint64_t step) {
  looks_at_ = step;
  late_.clear();
}

void Leads::give_up() {
  looks_at_.reset();
  if (trial_) bearable_ = std::max(bearable_, trial_->waited);
  trial_.reset();
  moved_.clear();
}

void Leads::judge(const Script& script, const Costs& costs) {
  looks_at_.reset();
  const Nanos least = std::max(kLeast, script.start_times().back() / kLeastParts);
  const Nanos waited = sum_above(late_, least);
  if (trial_) end_trial(waited);
  if (waited == 0_ns || waited.count * 10 <= bearable_.count * kMoreTenths || trials_ == kMostTrials) return;
  const std::vector<Coming> coming = list_coming(script, costs, least);
  const std::vector<OpPlace> starts = plan_starts(coming, script.start_times());
  std::vector<Lead> moved;
  for (std::size_t at = 0; at < coming.size(); ++at) {
    if (starts[at] < *script.start(coming[at].gap)) moved.push_back({starts[at], coming[at].gap});
  }
  std::ranges::stable_sort(moved, {}, &Lead::op);
  ++trials_;
  trial_ = Trial{std::exchange(moved_, std::move(moved)), waited};
}

void Leads::end_trial(Nanos waited) {
  const Trial trial = *std::exchange(trial_, std::nullopt);
  if (waited.count * 10 <= trial.waited.count * kLessTenths) return;
  moved_ = trial.before;
  bearable_ = std::max(waited, trial.waited);
}

// In the order in which they begin now.
std::vector<Coming> Leads::list_coming(const Script& script, const Costs& costs, Nanos least) const {
  std::vector<Coming> coming;
  std::vector<OpPlace> starts(script.gap_count());
  for (std::uint32_t gap = 0; gap < script.gap_count(); ++gap) starts[gap] = script.start(gap).value_or(0);
  for (const Lead& one : moved_) starts[one.gap] = one.op;
  for (std::uint32_t gap = 0; gap < script.gap_count(); ++gap) {
    if (!script.start(gap)) continue;
    const auto copy = static_cast<std::int64_t>(std::max(rate_, costs.in_nanos_per_byte) * static_cast<double>(script.size(gap).count));
    const Nanos late = gap < late_.size() && late_[gap] > least ? late_[gap] : 0_ns;
    coming.push_back({.gap = gap, .start = starts[gap], .not_before = script.earliest_start(gap), .copy = Nanos{copy} + costs.per_copy, .late = late});
  }
  std::ranges::stable_sort(coming, {}, &Coming::start);
  return coming;
}

}  // namespace spillway
