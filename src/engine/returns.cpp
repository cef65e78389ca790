#include "engine/returns.h"

#include <algorithm>
#include <ranges>
#include <tuple>

#include "engine/engine.h"

namespace spillway {

namespace {

constexpr std::uint64_t kMostOps = 1 << 18;  // of a forward: one that never ends must not fill the memory
constexpr std::int64_t kBackward = 2;  // times the forward: two products for every one
constexpr Nanos kSoonest = 10_us;
constexpr Nanos kLead = 2_ms;          // of ways back that are enqueued: who is wanted at once waits behind them
constexpr double kMargin = 2;          // times a copy's own time: estimates are rough, and the other direction shares the link

}  // namespace

void ForwardPass::add(std::uint64_t clock, Nanos time, Bytes need) {
  if (clock <= from_) return;
  if (clock - from_ > kMostOps) begin(clock - 1);
  until_.resize(std::max<std::size_t>(clock - from_ + 1, until_.size()), until_.back());
  needs_.resize(until_.size());
  until_.back() += time;
  needs_.back() = std::max(needs_.back(), need);
}

Bytes ForwardPass::need_between(std::uint64_t first, std::uint64_t last) const {
  Bytes most;
  for (std::uint64_t at = covers(first) ? first : from_; at <= last && at - from_ < needs_.size(); ++at) most = std::max(most, needs_[at - from_]);
  return most;
}

Nanos backward_time(const ForwardPass& forward, std::uint64_t last_use) {
  return (forward.covers(last_use) ? forward.rest_after(last_use) : forward.whole()) * kBackward;
}

std::uint64_t next_use(const ForwardPass& forward, std::uint64_t at, std::uint64_t made, std::uint64_t used) {
  const auto is_ahead = [&](std::uint64_t op) { return forward.covers(op) && op < at; };
  if (is_ahead(used)) return used;
  return is_ahead(made) ? made : 0;
}

std::vector<Return> plan_returns(std::span<const Away> away, const ForwardPass& forward, double nanos_per_byte, Nanos per_copy) {
  std::vector<Return> order(away.size());
  for (std::size_t at = 0; at < away.size(); ++at) order[at] = {.at = at, .start = backward_time(forward, away[at].next_use)};
  std::ranges::sort(order, {}, [&](const Return& one) { return std::tuple(one.start, away[one.at].storage); });
  Nanos behind = order.empty() ? 0_ns : order.back().start;
  for (Return& one : std::views::reverse(order)) {
    const auto copy = static_cast<std::int64_t>(kMargin * nanos_per_byte * static_cast<double>(away[one.at].size.count));
    behind = one.start = std::min(one.start, behind) - Nanos{copy} - per_copy;
  }
  return order;
}

// --- the engine's part ------------------------------------------------------------------------------------------------

// Who is wanted last leaves first, where that can be told.
double Engine::staleness(const Record& record) const {
  if (!plans() || course_.on || !returns_.backward || returns_.forward.whole() == 0_ns) return static_cast<double>(clock_ - record.last_use + 1);
  const Nanos next = backward_time(returns_.forward, next_use(returns_.forward, returns_.at, record.born, record.forward_use));
  return static_cast<double>((next - backward_time(returns_.forward, returns_.at) + kSoonest).count);
}

// Before every op of a step without a plan. Nobody leaves for one who comes early.
void Engine::return_early(Phase phase, Lock& lock) {
  const bool backward = phase == Phase::backward || phase == Phase::optimizer;
  if (!backward && std::exchange(returns_.backward, false)) returns_.forward.begin(clock_);
  if (!backward) return;
  if (!std::exchange(returns_.backward, true)) returns_.from = returns_.at = clock_, returns_.listed = -1;
  if (returns_.forward.whole() == 0_ns) return;  // it was not seen: the step went by a plan until now
  if (std::exchange(returns_.listed, stats_.evictions) != stats_.evictions) list_returns();
  const Nanos now = phase == Phase::optimizer ? returns_.forward.whole() * kBackward : backward_time(returns_.forward, returns_.at);
  for (; returns_.next < returns_.queue.size() && returns_.queue[returns_.next].start <= now; ++returns_.next) {
    const Returns::Coming coming = returns_.queue[returns_.next];
    const Course::Gone& gone = coming.who;
    if (!gone.is_still_away()) continue;
    const Bytes need = returns_.forward.need_between(coming.next_use, returns_.at);
    book_copies();
    if (phase == Phase::backward && may_drop_any() && early_.in.ahead() > kLead) return;
    if (live_ + gone.record->size + need > arena_.limit() || !try_prefetch(gone.record, lock)) return;
    if (gone.record->id == gone.id) gone.record->last_use = clock_;  // not the first to leave again
  }
}

void Engine::list_returns() {
  std::vector<Record*> records;
  std::vector<Away> away;
  for (Record* record : away_) {
    if (record->orphan) continue;
    records.push_back(record);
    away.push_back({record->id, record->size, next_use(returns_.forward, returns_.at, record->born, record->forward_use)});
  }
  returns_.queue.clear();
  returns_.next = 0;
  for (const Return& one : plan_returns(away, returns_.forward, options_.costs.in_nanos_per_byte, options_.costs.per_copy)) {
    Record* record = records[one.at];
    returns_.queue.push_back({{record, record->id, record->departures}, one.start, away[one.at].next_use});
  }
}

// How far the backward is: it goes back from op to op of the forward. Before the op's uses are noted.
void Engine::note_backward(std::span<const Use> uses) {
  for (const Use& use : uses) {
    if (returns_.forward.covers(use.record->forward_use)) returns_.at = std::min(returns_.at, use.record->forward_use);
  }
}

}  // namespace spillway
