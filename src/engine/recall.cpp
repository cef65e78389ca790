// What a run like this one left, from its first step on, and what this one leaves for the next.
#include <algorithm>
#include <bit>
#include <chrono>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"

namespace spillway {

namespace {

constexpr std::size_t kMostKnown = 8;  // steps kept for the next run: what varies shows in four
constexpr int kProven = 2;             // steps by a plan until it is kept
constexpr std::int64_t kSlackParts = 100, kFirstSlack = 1;  // as plans have it at first
constexpr std::int64_t kLikeParts = 10;  // of the memory: a plan made for so much less has too many leave
constexpr std::chrono::milliseconds kMostWait{300};  // for the first plan of a known run

KeptRun load_run(const StepStore& store, StepKey key, const Costs& costs, const PlanPolicy* policy) {
  const KeptSteps kept = store.load(key);
  KeptRun run{.key = key, .steps = kept.steps, .script = nullptr, .limit = {}, .entries = {}};
  if (!kept.plan || policy == nullptr || kept.plan->policy != policy->name) return run;
  run.script = script_of(kept, costs);
  run.limit = kept.plan->limit;
  run.entries = kept.plan->entries;
  return run;
}

// Of runs that began alike. What is wrong with a file may be nothing to this run: of its own it is told when the step ends.
std::vector<KeptRun> load_runs(const StepStore& store, std::uint64_t begin, const Costs& costs, const PlanPolicy* policy) {
  std::vector<KeptRun> runs;
  for (const StepKey key : store.find(begin)) {
    try {
      runs.push_back(load_run(store, key, costs, policy));
    } catch (const InputError&) {
      continue;
    }
  }
  return runs;
}

// What it moves away in a step.
Bytes bytes_below(const Script& script) {
  std::unordered_set<StoragePlace> below;
  Bytes bytes;
  for (std::uint32_t gap = 0; gap < script.gap_count(); ++gap) {
    const PlannedGap& planned = script.plan().gaps[gap];
    if (planned.remedy == Remedy::move && below.insert(planned.gap.storage).second) bytes += script.size(gap);
  }
  return bytes;
}

}  // namespace

void Engine::use_store(StepStore store) {
  const Lock lock(mutex_);
  store_ = std::move(store);
  known_.clear();
  left_.reset();
  opening_ = Opening(store_.exists() && plans());
}

// --- the first step -------------------------------------------------------------------------------------------------

// Before every op of it.
void Engine::look_at_opening(OpKey key, Lock& lock) {
  if (opening_.ops() == Opening::kBegin && plans()) look_for_kept(lock);
  const bool goes_on = course_.on && course_.script->is_next(course_.next, key);
  const auto joint = goes_on || !plans() ? std::nullopt : opening_.find_joint(key);
  opening_.add(key);
  if (!joint || !is_good_here(*joint->run)) return;
  stats_.surprises += course_.surprises;
  join_course({.script = joint->run->script, .limit = joint->run->script->budget(), .next = joint->next, .spared = {}});
}

// Files are read while the step goes on. What a plan moves away needs memory below, which is dear to get: there is time for that as
// long as the model is being made.
void Engine::look_for_kept(Lock& lock) {
  do_later([this, store = store_, begin = opening_.sized().begin, costs = options_.costs, policy = options_.plans] {
    std::vector<KeptRun> found = load_runs(store, begin, costs, policy);
    Lock lock(mutex_);
    if (!opening_.on()) return;
    const auto good = std::ranges::find_if(found, [&](const KeptRun& run) { return is_good_here(run); });
    const auto script = good == found.end() || minutes_.on() ? nullptr : good->script;  // a run that is played again gets it when it is needed
    const std::uint64_t step = early_.step.load();
    opening_.take_in(std::move(found));
    lock.unlock();
    if (script) mover_.prepare_host(bytes_below(*script), [&] { return early_.step.load() != step; });
  }, lock);
}

// Whether the plan was made for what there is now: with less somebody would lack room, with much more too many leave.
bool Engine::is_good_here(const KeptRun& run) const {
  const Bytes limit = arena_.limit();
  return run.script && plans() && run.script->budget() <= limit * (kSlackParts - kFirstSlack) / kSlackParts && run.limit >= limit - limit / kLikeParts;
}

// What was kept for a run that began like this one. Where sizes changed then, they will now.
std::optional<KeptRun> Engine::recall() {
  try {
    for (const StepKey key : {opening_.shape(), opening_.sized()}) {
      const KeptRun* found = opening_.find(key);
      KeptRun run = found != nullptr ? *found : load_run(store_, key, options_.costs, options_.plans);
      if (!run.steps.empty()) return run;
    }
  } catch (const InputError& error) {
    stats_.store_problem = error.what();
  }
  return std::nullopt;
}

// True: nothing is to be learnt from the step, since there is a plan. Otherwise what there is to plan for is planned for.
bool Engine::end_opening(Lock& lock) {
  const std::optional<KeptRun> run = recall();
  opening_.end();
  if (run) known_ = run->steps;
  for (const auto& steps : known_) repertoire_.observe(steps);
  stats_.warm_start = run.has_value();
  const bool repeats = run && !repertoire_.varies();
  if (repeats) {
    recorded_ = known_.back();
    recorded_time_.reset();  // it was recorded in another run
    if (is_good_here(*run)) return begin_warm(run->script, lock), true;
  }
  if (course_.script) follow(nullptr, lock);  // it was another run's after all
  if (!repeats) return false;
  plan_anew();
  planner_.wait_for_first(kMostWait);
  return false;
}

// The second step goes by the plan of the run before, like the first, while better ones are looked for. That the first left it at
// times is no wonder: much is made in it alone.
void Engine::begin_warm(std::shared_ptr<const Script> script, Lock& lock) {
  stats_.surprises += course_.surprises;
  if (course_.script != script) follow(std::move(script), lock);
  plan_anew(SearchFrom::everywhere);
  change_course(lock);
}

// --- for the next run -----------------------------------------------------------------------------------------------

// A few steps that differ in size, or the one that is planned for: by what the first step was without and with sizes.
void Engine::remember(const std::shared_ptr<const RecordedSteps>& steps, Lock& lock) {
  const bool varies = repertoire_.varies();
  if (!store_.exists() || known_.size() >= kMostKnown || (!varies && steps->sample)) return;
  known_.push_back(steps);
  if (varies && !std::has_single_bit(known_.size())) return;
  left_.reset();
  save(varies ? opening_.shape() : opening_.sized(), {.steps = varies ? known_ : KnownSteps{steps}}, lock);
}

// The plan of steps that repeat, once some went by it. One that the steps do not bear is not kept.
void Engine::keep_plan(Lock& lock) {
  const auto script = course_.script;
  if (!store_.exists() || !recorded_ || !script || script == left_ || course_.outdated || course_.missed > 0 || course_.steps < kProven) return;
  left_ = script;
  KeptSteps kept{.steps = {recorded_}, .plan = KeptPlan{.policy = std::string(options_.plans->name), .budget = script->budget(), .limit = arena_.limit(),
                                                        .entries = {}, .gaps = script->plan().gaps}};
  do_later([this, kept = std::move(kept), first = opening_.keys(), key = opening_.sized(), costs = options_.costs]() mutable {
    kept.plan->entries = find_entries(first, kept.steps.back()->keys);
    if (kept.plan->entries.empty()) return;
    try {
      (void)script_of(kept, costs);
    } catch (const InputError&) {
      return;
    }
    Lock lock(mutex_);
    save(key, kept, lock);
  }, lock);
}

void Engine::save(StepKey key, const KeptSteps& kept, Lock& lock) {
  const StepStore store = store_;
  std::string problem;
  lock.unlock();
  try {
    store.save(key, kept);
  } catch (const InputError& error) {
    problem = error.what();
  }
  lock.lock();
  if (problem.empty()) return;
  stats_.store_problem = std::move(problem);
  store_ = {};
}

}  // namespace spillway
