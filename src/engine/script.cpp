#include "engine/script.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/reuse.h"
#include "liveness/liveness.h"

namespace spillway {

namespace {

std::optional<std::uint16_t> find_nth(const std::vector<StorageId>& ids, StorageId id) {
  const auto found = std::ranges::find(ids, id);
  if (found == ids.end()) return std::nullopt;
  return static_cast<std::uint16_t>(found - ids.begin());
}

}  // namespace

std::optional<Leaving> find_part(const Op& op, StorageId id) {
  if (const auto nth = find_nth(op.inputs, id)) return Leaving{.nth = *nth, .part = Part::input};
  if (const auto nth = find_nth(op.mutated, id)) return Leaving{.nth = *nth, .part = Part::mutated};
  if (const auto nth = find_nth(op.outputs, id)) return Leaving{.nth = *nth, .part = Part::output};
  return std::nullopt;
}

std::vector<const Op*> ops_of(const Trace& trace, StepIndex step) {
  std::vector<const Op*> ops;
  for (const Event& event : trace.events) {
    const auto* op = std::get_if<Op>(&event);
    if (op != nullptr && op->step == step) ops.push_back(op);
  }
  return ops;
}

Script::Script(const RecordedSteps& steps, const Liveness& step, const Plan& plan, Bytes budget,
               std::shared_ptr<const Places> places, const std::vector<OpPlace>& fetches, bool any_size)
    : keys_(any_size ? steps.shapes : steps.keys),
      any_size_(any_size),
      budget_(budget),
      places_(std::move(places)),
      plan_(plan) {
  const std::vector<const Op*> ops = ops_of(steps.trace, StepRecorder::kStep);
  leavings_.resize(ops.size());
  holdings_.resize(ops.size());
  acts_after_.resize(ops.size());
  fetches_.resize(ops.size());
  for (const LiveOp& op : step.ops()) needs_.push_back(op.transient);
  if (std::ranges::count(steps.timed, true) > 0) {
    for (const LiveOp& op : step.ops()) times_.push_back(op.duration);
  }
  gap_count_ = static_cast<std::uint32_t>(plan.gaps.size());
  start_times_.assign(step.starts().begin(), step.starts().end());
  starts_.resize(gap_count_);
  earliest_.resize(gap_count_);
  if (any_size) {
    for (const PlannedGap& planned : plan.gaps) gaps_.push_back(planned.gap);
    peak_beside_ = peak_beside(step, gaps_);
  }
  for (std::uint32_t gap = 0; gap < gap_count_; ++gap) {
    const PlannedGap& planned = plan.gaps[gap];
    ends_.push_back(planned.gap.end);
    sizes_.push_back(step.storages()[planned.gap.storage].size);
    const OpPlace op = planned.gap.begin - 1;
    auto leaving = find_part(*ops[op], step.storages()[planned.gap.storage].id);
    if (!leaving) continue;
    leaving->gap = gap;
    leaving->remedy = planned.remedy;
    leaving->again = planned.again;
    leavings_[op].push_back(*leaving);
    acts_after_[op] = true;
    const LiveStorage& storage = step.storages()[planned.gap.storage];
    if (planned.gap.end > ops.size() && storage.wraps()) staying_away_.emplace_back(gap, storage.id);
    if (planned.remedy != Remedy::move || planned.gap.ends == GapEnd::death) continue;
    if (fetches.empty()) add_start(gap, planned.fetch_at % step.op_count());
    else if (fetches[gap] > 0) add_start(gap, fetches[gap] - 1);
  }
  const auto order = [&](std::uint32_t gap) { return order_of_return(plan.gaps[gap].gap, plan.gaps[gap].fetch_at, step.op_count()); };
  for (auto& due : fetches_) std::ranges::sort(due, {}, order);
  add_holds(ops, step);
}

void Script::add_start(std::uint32_t gap, OpPlace op) {
  fetches_[op].push_back(gap);
  starts_[gap] = op;
  const OpPlace left = plan_.gaps[gap].gap.begin;
  const bool placed = places_ && gap < places_->free_from.size();
  earliest_[gap] = std::max(left <= op ? left : 0, placed ? places_->free_from[gap] : 0);
}

// From the last op that sees them.
void Script::add_holds(const std::vector<const Op*>& ops, const Liveness& step) {
  for (const Hold& hold : plan_.holds) {
    const OpPlace last = step.accesses_of(hold.storage).back().op;
    const auto who = find_part(*ops[last], step.storages()[hold.storage].id);
    if (!who) continue;
    holdings_[last].push_back({*who, hold.until - 1});
    acts_after_[last] = acts_after_[hold.until - 1] = true;
  }
}

}  // namespace spillway
