// What is set from outside the ops: steps, policy, budget, others' bytes; and what is told.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace spillway {

void Engine::end_step(const StepTimes& times) {
  Lock lock(mutex_);
  minutes_.note(CallKind::end_step);
  ++stats_.steps;
  ++step_;
  settle_waits();
  if (tape_.on()) tape_.end_step(times.now);
  forget_old_recipes();
  returns_.backward = false;
  returns_.forward.begin(clock_);
  begin_early_step();
  let_outliving_go(std::numeric_limits<std::size_t>::max());
  if (plans() && options_.prompted) return;  // what the next step goes by is told first
  if (plans()) steer_end_step(times, lock);
  begin_step();
}

void Engine::begin_step() {
  if (plans()) {
    minutes_.note_leads(course_.leads);
    minutes_.note(CallKind::begin_step);
    course_.begin_step();
    layout_.begin_step(course_.on);
    open_peak_ = open_;
  }
  at_ease_ = std::exchange(evictions_then_, stats_.evictions) == stats_.evictions;
  repose_.end_step(at_ease_, {clock_, storages_, asked_});
  calm_ = is_calm();
  follows_.store(steers() || wants_ops(), std::memory_order_relaxed);
}

// Whoever is at home when a larger step comes has no recipe then, so all that may be at home must have room below.
bool Engine::is_calm() const {
  const bool planned = repertoire_.varies() || (course_.script && course_.script->gap_count() > 0);
  const bool room_below = !refused_below_ && std::max(whole(), arena_.limit()) <= mover_.limit(Tier::host) + mover_.limit(Tier::file);
  return repose_.lasts() && options_.leave == Leave::cheaper && !planned && room_below;
}

void Engine::take_over_rates(double out_nanos_per_byte, double in_nanos_per_byte) {
  options_.costs.out_nanos_per_byte = out_nanos_per_byte;
  options_.costs.in_nanos_per_byte = in_nanos_per_byte;
}

void Engine::set_costs(const Costs& costs, double move_nanos_per_byte) {
  const Lock lock(mutex_);
  options_.costs = costs;
  options_.move_nanos_per_byte = move_nanos_per_byte;
}

void Engine::set_policy(ReactivePolicy policy, Leave leave, const PlanPolicy* plans) {
  const Lock lock(mutex_);
  minutes_.note(CallKind::set_policy, policy, leave, plans == nullptr ? 0 : plans - plan_policies().data() + 1);
  options_.policy = policy;
  options_.leave = leave;
  options_.plans = plans;
  mover_.watch_rates(plans != nullptr);
  leave_plans();
  repertoire_.forget_scripts();
  follows_ = true;
}

void Engine::open_tiers(const MoverOptions& tiers) {
  const Lock lock(mutex_);
  minutes_.end();
  mover_.open(tiers);
}

// Ops that ran before have no place in it.
void Engine::open_trace(const std::string& path, const WriterOptions& kept) { open_trace(std::make_unique<TraceWriter>(path, kept)); }

void Engine::open_trace(std::unique_ptr<TraceWriter> writer) {
  minutes_.end();  // of a trace before this one
  std::vector<const Record*> living;
  shelf_.for_each([&](Record& record) {
    if (record.id.valid() && record.residence != Residence::gone) living.push_back(&record);
    for (Recipe* recipe : record.recipes) recipe->traced = {};
  });
  std::ranges::sort(living, {}, &Record::id);
  tape_.open(std::move(writer), device_, std::array{mover_.in_stream(), mover_.out_stream()}, living);
  mover_.time_copies(true);
  follows_ = true;
  if (options_.minutes && options_.budget) begin_minutes();
}

// What is there already, and where, no trace tells.
void Engine::begin_minutes() {
  if (storages_ > 0) return tape_.fact("again", "no: there were tensors before the trace began");
  tape_.fact("again", to_words(options_));
  minutes_.begin();
}

bool Engine::try_set_budget(std::optional<Bytes> budget) {
  Lock lock(mutex_);
  minutes_.note(CallKind::try_set_budget, budget_word(budget));
  const std::optional<Bytes> before = std::exchange(options_.budget, budget);
  arena_.set_limit(limit_beside(outside_));
  const bool fits = shrink_to_limit(lock) <= 0_B && (!budget || outside_ <= *budget);
  if (fits) {
    tape_.budget(budget.value_or(0_B));
    stats_.most_budget = std::max(stats_.most_budget, before.value_or(0_B));
    plan_for_budget();
  } else {
    options_.budget = before;
    arena_.set_limit(limit_beside(outside_));
  }
  note_reserved();
  return fits;
}

void Engine::trust_nothing() {
  const Lock lock(mutex_);
  minutes_.note(CallKind::trust_nothing);
  std::vector<Record*> home;
  table_.for_each([&](Record* record) { home.push_back(record); });
  std::ranges::sort(home, {}, [](const Record* record) { return record->data; });
  for (Record* record : home) {
    ++record->epoch;
    forget_copy(*record);
    release_recipes(*record);
  }
}

void Engine::reset_stats() {
  const Lock lock(mutex_);
  minutes_.note(CallKind::reset_stats);
  settle_waits();
  stats_ = {};
  // What the tiers counted themselves goes on counting: it is added in stats().
  stats_.remaps = -arena_.remaps();
  stats_.stalls = {.fetch = {}, .room = -arena_.waited(), .host_room = -mover_.waited(Tier::host), .file = -mover_.waited(Tier::file)};
  peak_live_ = live_;
  stats_.plain_peak = live_ + absent_;
  peak_reserved_ = arena_.reserved() + outside_;
}

void Engine::set_budget(std::optional<Bytes> budget) {
  Lock lock(mutex_);
  minutes_.note(CallKind::set_budget, budget_word(budget));
  tape_.budget(budget.value_or(0_B));
  stats_.most_budget = std::max(stats_.most_budget, options_.budget.value_or(0_B));
  options_.budget = budget;
  arena_.set_limit(limit_beside(outside_));
  (void)shrink_to_limit(lock);
  plan_for_budget();
  note_reserved();
}

// The rest of this step is left to the evictor. What was recorded is as true as before: the next may have a plan already.
void Engine::plan_for_budget() {
  const PlanningTime::Part part(planning_time_);
  calm_ = false;
  repose_ = {};
  auto steps = recorded_;
  leave_plans();
  repertoire_.change_room();
  if (!steps || !plans()) return;
  recorded_ = std::move(steps);
  start_planning(SearchFrom::nothing);
}

void Engine::set_outside(Bytes outside) {
  Lock lock(mutex_);
  minutes_.end();
  outside_ = outside;
  arena_.set_limit(limit_beside(outside_));
  (void)shrink_to_limit(lock);
  note_reserved();
}

bool Engine::try_set_outside(Bytes outside, bool may_evict) {
  Lock lock(mutex_);
  if (!options_.budget) return true;
  minutes_.end();
  arena_.set_limit(limit_beside(outside));
  const Bytes over = may_evict ? shrink_to_limit(lock) : arena_.reserved() - arena_.limit();
  const bool fits = over <= 0_B && arena_.reserved() + outside <= *options_.budget;
  if (fits) outside_ = outside;
  else arena_.set_limit(limit_beside(outside_));
  return fits;
}

Bytes Engine::limit_beside(Bytes outside) const {
  const Bytes whole = options_.budget ? *options_.budget - outside : options_.address_space;
  return round_down(std::max(whole, 0_B), options_.granule);
}

Bytes Engine::shrink_to_limit(Lock& lock) {
  for (;;) {
    const Bytes over = arena_.reserved() - arena_.limit();
    if (over <= 0_B) return over;
    lock.unlock();
    const Bytes given = arena_.trim(/*wait=*/true);
    lock.lock();
    if (given == 0_B && !make_room(over, lock)) return over;
  }
}

void Engine::trim(bool wait) {
  const Lock lock(mutex_);
  minutes_.note(CallKind::trim, wait);
  arena_.trim(wait);
}

void Engine::settle_copies() { mover_.drain(); }

void Engine::reset_recent_peaks() {
  const Lock lock(mutex_);
  recent_ = {.live = live_, .reserved = arena_.reserved() + outside_};
}

RecentPeaks Engine::recent_peaks() const {
  const Lock lock(mutex_);
  return recent_;
}

Bytes Engine::most_available() const {
  const Lock lock(mutex_);
  const Bytes leaving = options_.budget ? evictable_ : 0_B;
  return arena_.limit() - (live_ - leaving);
}

EngineStats Engine::stats() const {
  const Lock lock(mutex_);
  EngineStats stats = stats_;
  const PoolStats arena = arena_.stats();
  stats.budget = options_.budget.value_or(0_B);
  stats.most_budget = std::max(stats.most_budget, stats.budget);
  stats.reserved = arena.reserved + outside_;
  stats.peak_reserved = peak_reserved_;
  stats.live = live_;
  stats.peak_live = peak_live_;
  if (course_.script) stats.predicted = course_.promise;
  stats.first_plan = planner_.first();
  stats.seeks = planner_.busy();
  stats.remaps += arena_.remaps();
  (void)waits_.visit_over(device_, [&](const StreamWait& wait, Nanos stall) { stats.stalls.of(wait.cause) += stall; });
  stats.stalls.room += arena_.waited();
  stats.stalls.host_room += mover_.waited(Tier::host);
  stats.stalls.file += mover_.waited(Tier::file);
  return stats;
}

}  // namespace spillway
