#include "trace/standing.h"

#include <algorithm>
#include <utility>

#include "trace/saturate.h"

namespace spillway {
namespace {

std::uint64_t key_of(StorageId id) { return id.index; }
std::uint64_t key_of(Range range) { return static_cast<std::uint64_t>(range.begin.count); }

// Replaces the element with the same job (tier, ...), or adds it.
template <class T, class Key>
T& replace(std::vector<T>& all, T value, Key key) {
  const auto found = std::ranges::find(all, std::invoke(key, value), key);
  if (found == all.end()) return all.emplace_back(std::move(value));
  return *found = std::move(value);
}

// Decisions of one plan that a restarted trace repeats: a plan names each storage of a step a few times at most.
constexpr std::size_t kMaxDecisions = 100'000, kFewDecisions = 1'000;
// Facts about a whole run are a dozen; this only stops a leak.
constexpr std::size_t kMaxFacts = 1'000;

}  // namespace

const StorageBirth* Standing::find(StorageId storage) {
  const Living* living = living_.find(key_of(storage));
  return living == nullptr ? nullptr : &living->birth;
}

StepSummary* Standing::find_open(JobId job) {
  const auto found = std::ranges::find_if(open_, [&](const auto& step) { return step.first.job == job; });
  return found == open_.end() ? nullptr : &found->second;
}

void Standing::raise_peak(Bytes bytes) {
  peak_ = std::max(peak_, bytes);
  for (auto& [begin, sums] : open_) sums.peak = std::max(sums.peak, bytes);
}

void Standing::add_device(Bytes size) {
  saturating_add(device_, size);
  peak_live_ = std::max(peak_live_, device_);
  raise_peak(device_);
}

void Standing::set_tier(Living& living, TraceTier tier) {
  const bool was = living.birth.tier == TraceTier::device;
  const bool is = tier == TraceTier::device;
  living.birth.tier = tier;
  if (was && !is) add_device(saturating_minus(Bytes{}, living.birth.size));
  if (!was && is) add_device(living.birth.size);
}

// The last word on a key is the one that holds.
void Standing::observe(const Fact& fact) {
  replace(facts_, fact, &Fact::key);
  if (facts_.size() > kMaxFacts) facts_.pop_back();
}

void Standing::observe(const StepBegin& begin) {
  note_time(begin.at);
  std::erase_if(open_, [&](const auto& step) { return step.first.job == begin.job; });
  open_.emplace_back(begin, StepSummary{.step = begin.step, .job = begin.job, .peak = device_, .at = begin.at});
}

void Standing::observe(const StepEnd& end) {
  note_time(end.at);
  StepSummary* sums = find_open(end.job);
  if (sums == nullptr) return;
  sums->duration = saturating_minus(end.at, sums->at);
  ended_.push_back(*sums);
  std::erase_if(open_, [&](const auto& step) { return step.first.job == end.job; });
}

void Standing::observe(const StorageBirth& birth) {
  note_time(birth.at);
  if (living_.find(key_of(birth.storage)) != nullptr) return;
  living_.put(key_of(birth.storage), {birth, ops_});
  if (birth.tier == TraceTier::device) add_device(birth.size);
}

void Standing::observe(const StorageDeath& death) {
  note_time(death.at);
  Living* living = living_.find(key_of(death.storage));
  if (living == nullptr) return;
  set_tier(*living, TraceTier::nowhere);
  living_.erase(key_of(death.storage));
}

void Standing::observe(const StorageRole& role) {
  if (Living* living = living_.find(key_of(role.storage))) living->birth.kind = role.kind;
}

// The transient counts from before the op, when the outputs it made were not there yet.
void Standing::observe(const Op& op) {
  note_time(op.start);
  if (StepSummary* sums = find_open(op.job)) ++sums->ops;
  Bytes before = device_;
  for (const StorageId output : op.outputs) {
    const Living* living = living_.find(key_of(output));
    const bool made_here = living != nullptr && living->ops_before == ops_ && living->birth.tier == TraceTier::device;
    if (made_here && std::ranges::find(op.inputs, output) == op.inputs.end())
      before = saturating_minus(before, living->birth.size);
  }
  saturating_add(before, op.transient);
  raise_peak(before);
  ++ops_;
}

void Standing::observe(const Allocation& allocation) {
  note_time(allocation.at);
  granted_.put(key_of(allocation.range), allocation);
}

void Standing::observe(const Release& release) {
  note_time(release.at);
  granted_.erase(key_of(release.range));
}

void Standing::observe(const Reserved& reserved) {
  note_time(reserved.at);
  replace(reserved_, reserved, &Reserved::tier);
}

void Standing::observe(const Move& move) {
  note_time(move.start);
  Living* living = living_.find(key_of(move.storage));
  if (living == nullptr) return;
  set_tier(*living, move.to);
  StepSummary* sums = find_open(living->birth.job);
  if (sums == nullptr || move.clean) return;
  if (move.to == TraceTier::device) saturating_add(sums->moved_in, move.size);
  if (move.from == TraceTier::device && move.to != TraceTier::nowhere) saturating_add(sums->moved_out, move.size);
}

void Standing::observe(const Recompute& recompute) {
  note_time(recompute.start);
  Living* living = living_.find(key_of(recompute.storage));
  if (living == nullptr) return;
  set_tier(*living, TraceTier::device);
  StepSummary* sums = find_open(living->birth.job);
  if (sums == nullptr) return;
  ++sums->recomputed;
  saturating_add(sums->recompute, recompute.duration);
}

void Standing::observe(const Stall& stall) {
  note_time(stall.start);
  if (StepSummary* sums = find_open(stall.job))
    saturating_add(sums->stall[static_cast<std::size_t>(stall.cause)], stall.duration);
}

void Standing::observe(const BudgetChange& change) {
  note_time(change.at);
  replace(budgets_, change, &BudgetChange::job);
}

void Standing::observe(const PlanMade& plan) {
  note_time(plan.at);
  const auto job = [](const Plan& p) { return p.made.job; };
  const auto found = std::ranges::find(plans_, plan.job, job);
  Plan& slot = found == plans_.end() ? plans_.emplace_back() : *found;
  slot.made = plan;
  slot.decisions.clear();
}

void Standing::observe(const Decision& decision) {
  const auto job = [](const Plan& p) { return p.made.job; };
  const auto plan = std::ranges::find(plans_, decision.job, job);
  if (!decision.planned || plan == plans_.end()) return;
  if (plan->decisions.size() >= plan->most) {  // those of the steps before are over
    std::erase_if(plan->decisions, [&](const Decision& old) { return is_over(old, decision.at); });
    plan->most = std::max(kFewDecisions, plan->decisions.size() * 2);
  }
  if (plan->decisions.size() < kMaxDecisions) plan->decisions.push_back(decision);
}

// Peaks and ended steps are history and stay.
void Standing::observe(const Restart& restart) {
  Standing fresh;
  fresh.ended_ = std::move(ended_);
  fresh.peak_live_ = peak_live_;
  fresh.peak_ = peak_;
  *this = std::move(fresh);
  note_time(restart.at);
}

std::vector<StepSummary> Standing::take_summaries() { return std::exchange(ended_, {}); }

void Standing::forget_texts() {
  facts_.clear();
  names_.clear();
}

}  // namespace spillway
