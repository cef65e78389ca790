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
               std::shared_ptr<const Places> places, const std::vector<OpPlace>& fetches, bool any_size, std::span<const PlannedGap> reserve)
    : plan_(plan) {
  lines_.keys = any_size ? steps.shapes : steps.keys;
  lines_.any_size = any_size;
  lines_.budget = budget;
  lines_.places = std::move(places);
  const std::vector<const Op*> ops = ops_of(steps.trace, StepRecorder::kStep);
  lines_.leavings.resize(ops.size());
  lines_.holdings.resize(ops.size());
  lines_.fetches.resize(ops.size());
  for (const LiveOp& op : step.ops()) lines_.needs.push_back(op.transient);
  if (std::ranges::count(steps.timed, true) > 0) {
    for (const LiveOp& op : step.ops()) times_.push_back(op.duration);
  }
  std::vector<PlannedGap> gaps = plan.gaps;
  gaps.insert(gaps.end(), reserve.begin(), reserve.end());
  start_times_.assign(step.starts().begin(), step.starts().end());
  starts_.resize(gaps.size());
  earliest_.resize(gaps.size());
  if (any_size) {
    for (const PlannedGap& planned : gaps) gaps_.push_back(planned.gap);
    peak_beside_ = peak_beside(step, std::span(gaps_).first(plan.gaps.size()));
  }
  for (std::uint32_t gap = 0; gap < gaps.size(); ++gap) {
    const PlannedGap& planned = gaps[gap];
    if (!add_gap(gap, planned, ops, step)) continue;
    if (planned.remedy != Remedy::move || planned.gap.ends == GapEnd::death) continue;
    if (fetches.empty()) add_start(gap, planned.gap.begin, planned.fetch_at % step.op_count());
    else if (fetches[gap] > 0) add_start(gap, planned.gap.begin, fetches[gap] - 1);
  }
  const auto order = [&](std::uint32_t gap) { return order_of_return(gaps[gap].gap, gaps[gap].fetch_at, step.op_count()); };
  for (auto& due : lines_.fetches) std::ranges::sort(due, {}, order);
  add_holds(ops, step);
  note_acts();
}

// For whoever only goes by it: nobody asks for times, reasons or what else may start when.
Script::Script(Lines lines) : lines_(std::move(lines)) { note_acts(); }

void Script::note_acts() {
  acts_after_.resize(op_count());
  for (std::size_t op = 0; op < op_count(); ++op) {
    if (!lines_.leavings[op].empty() || !lines_.holdings[op].empty()) acts_after_[op] = true;
    for (const Holding& holding : lines_.holdings[op]) acts_after_[holding.through] = true;
  }
}

bool Script::add_gap(std::uint32_t gap, const PlannedGap& planned, const std::vector<const Op*>& ops, const Liveness& step) {
  const LiveStorage& storage = step.storages()[planned.gap.storage];
  lines_.ends.push_back(planned.gap.end);
  sizes_.push_back(storage.size);
  const OpPlace op = planned.gap.begin - 1;
  auto leaving = find_part(*ops[op], storage.id);
  if (!leaving) return false;
  leaving->gap = gap;
  leaving->remedy = planned.remedy;
  leaving->again = planned.again;
  lines_.leavings[op].push_back(*leaving);
  if (planned.gap.end > ops.size() && storage.wraps()) lines_.staying_away.emplace_back(gap, storage.id);
  return true;
}

std::vector<bool> Script::spared_reserve() const {
  if (gap_count() == planned_gaps()) return {};
  std::vector<bool> spared(gap_count());
  std::fill(spared.begin() + planned_gaps(), spared.end(), true);
  return spared;
}

void Script::add_start(std::uint32_t gap, OpPlace left, OpPlace op) {
  lines_.fetches[op].push_back(gap);
  starts_[gap] = op;
  const auto& places = lines_.places;
  const bool placed = places && gap < places->free_from.size();
  earliest_[gap] = std::max(left <= op ? left : 0, placed ? places->free_from[gap] : 0);
}

// From the last op that sees them.
void Script::add_holds(const std::vector<const Op*>& ops, const Liveness& step) {
  for (const Hold& hold : plan_.holds) {
    const OpPlace last = step.accesses_of(hold.storage).back().op;
    const auto who = find_part(*ops[last], step.storages()[hold.storage].id);
    if (!who) continue;
    lines_.holdings[last].push_back({*who, hold.until - 1});
  }
}

}  // namespace spillway
