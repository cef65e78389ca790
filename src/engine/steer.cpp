// Following a plan: what leaves after an op and starts its way back before one, and when a new plan is wanted.
//
// A plan is advice. A step that goes another way is left to the reactive evictor from there on, and so is memory that runs
// short in spite of the plan.
#include <algorithm>
#include <array>
#include <limits>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"

namespace spillway {

namespace {

constexpr int kMostMissed = 3;       // steps off course before the run is recorded anew
constexpr std::int64_t kSlackParts = 100;  // of the budget: holes between storages, and what is not planned
constexpr double kDrift = 1.3;       // of a copy's time; both directions at once explain 1.1
constexpr int kLongestLinkPause = 256;
constexpr int kMostMoves = 2;        // of whoever is in the way of places, until plans leave more room
constexpr int kSettlingSteps = 2;    // until blocks taken before there were places are gone
constexpr std::int64_t kFirstSlack = 1, kMostSlack = 25;
constexpr std::int64_t kMostOpenParts = 4;  // of the budget, for what is not placed
constexpr std::int64_t kFarWorth = 5;  // a part of a step's time for which a script is changed at once
constexpr int kTrial = 20;           // steps in which a script that took another's place must have settled
constexpr std::size_t kEndParts = 10;  // of a step's ops: the last of them are its end
constexpr int kPatience = 50;        // steps without a plan until it is looked whether there is a good one now
constexpr int kMostPatience = 4;      // doublings of that, after plans that were slower than none
constexpr std::int64_t kLateParts = 50;  // of a step's time: less to wait for at its end, and the device has waited for the host
constexpr std::array kLooks{1, 3, 8, 20};  // steps without a plan after which another is recorded: nothing else shows that sizes change

// Most cores are the program's.
std::size_t searching_threads() {
  constexpr std::size_t kCoresEach = 4, kMost = 6;
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / kCoresEach, 1, kMost);
}

std::shared_ptr<RecordedSteps> with_times(RecordedSteps steps, const std::vector<Nanos>& durations) {
  set_times(steps, durations);
  return std::make_shared<RecordedSteps>(std::move(steps));
}

}  // namespace

void Engine::steer_before(OpKey key, Phase phase, Lock& lock) {
  if (opening_.on()) look_at_opening(key, lock);
  minutes_.note(CallKind::before, key.shape, key.sized, phase);
  op_shape_ = key.shape;
  if (!course_.on) return return_early(phase, lock);
  const Script& script = *course_.script;
  if (!script.is_next(course_.next, key)) {
    course_.on = false;
    layout_.leave_course();
    return let_outliving_go(script.op_count());
  }
  const std::size_t op = course_.next++;
  stats_.first_planned_ops += opening_.on() ? 1 : 0;
  layout_.begin_op(static_cast<std::uint32_t>(op));
  if (op == script.op_count() - script.op_count() / kEndParts) course_.near_end = device_.record(compute_);
  for (const std::uint32_t gap : script.fetches(op)) course_.due.push_back(gap);
  course_.leads.take_due(op, course_.ahead);
  const Bytes need = script.need(op);
  if (!course_.due.empty()) start_due(course_.due, need, lock);
  if (course_.on && course_.due.empty() && !course_.ahead.empty()) start_due(course_.ahead, need, lock);
}

// In their order, as long as there is room beside the op that is about to run. Whose place is not free yet lets others pass.
void Engine::start_due(std::vector<std::uint32_t>& waiting, Bytes need, Lock& lock) {
  const std::shared_ptr<const Script> script = course_.script;
  const auto first = std::ranges::find_if(waiting, [&](std::uint32_t gap) { return course_.gone[gap].is_still_away(); });
  waiting.erase(waiting.begin(), first);
  if (waiting.empty() || live_ + course_.gone[waiting.front()].record->size + need > course_.limit) return;
  std::vector<std::uint32_t> due, later;
  due.swap(waiting);
  bool full = false;
  for (const std::uint32_t gap : due) {
    const Course::Gone gone = course_.gone[gap];
    if (course_.script != script) return;
    if (!gone.is_still_away()) continue;
    full = full || live_ + gone.record->size + need > course_.limit;
    if (full || !try_prefetch(gone.record, lock)) later.push_back(gap);
  }
  waiting.swap(later);
}

// False when there is no room, or somebody has its place. See Note [Promote outside the lock].
bool Engine::try_prefetch(Record* record, Lock& lock) {
  if (record->orphan) return true;
  const auto block = try_take(record->size, mover_.in_stream(), lock, record, /*only=*/true);
  if (!block) return false;
  record->residence = Residence::arriving;
  ++record->refs;
  void* weak = owner_.weak(*record);
  lock.unlock();
  void* held = owner_.hold(weak);
  lock.lock();
  if (held == nullptr) minutes_.note(CallKind::refused, record, 0, 0, 0);
  if (held != nullptr) arrive(*record, *block);
  else free_block(*block, {});
  if (held == nullptr && record->residence == Residence::arriving) record->residence = Residence::away;
  changed_.tell();
  if (held != nullptr) {
    lock.unlock();
    owner_.unhold(held);
    lock.lock();
  }
  unref(record);
  return true;
}

void Engine::steer_after(std::span<const Use> uses, std::span<Record* const> outputs, Lock& lock) {
  minutes_.note_after(returns_.need, uses, outputs);
  if (!course_.on) note_time(outputs, lock);
  if (repertoire_.watches()) return watch_op(uses, outputs, lock);
  if (!course_.on || !course_.script->acts_after(course_.next - 1)) return;
  hold_beyond_death(uses, outputs);
  std::vector<std::pair<Record*, const Leaving*>> found;
  for (const Leaving& leaving : course_.script->leavings(course_.next - 1)) {
    Record* record = course_.is_spared(leaving.gap) ? nullptr : find_part(leaving, uses, outputs);
    if (record == nullptr) continue;
    if (!may_leave(*record)) continue;
    ++record->refs;
    found.emplace_back(record, &leaving);
  }
  const std::shared_ptr<const Script> script = course_.script;
  for (const auto& [record, leaving] : found) {
    const StorageId id = record->id;
    const bool drop = leaving->remedy == Remedy::drop;
    if (may_leave(*record) && evict(record, drop ? Leave::replay : Leave::move, lock, leaving->gap) && course_.script == script) {
      course_.gone[leaving->gap] = {record, id, record->departures};
      record->again = leaving->again;
      tape_.decide(id, drop ? Action::drop : Action::move_out, script->end(leaving->gap) - static_cast<OpPlace>(course_.next), script->reason(leaving->gap));
    }
    unref(record);
  }
  let_outliving_go(course_.next);
}

// Whoever is rebuilt from them may be dropped only after their death.
void Engine::hold_beyond_death(std::span<const Use> uses, std::span<Record* const> outputs) {
  for (const Holding& holding : course_.script->holdings(course_.next - 1)) {
    Record* record = find_part(holding.who, uses, outputs);
    if (record == nullptr || std::exchange(record->outlives, true)) continue;
    ++record->refs;
    course_.outliving.emplace_back(record, holding.through);
  }
}

// Those that were kept through an op before this one.
void Engine::let_outliving_go(std::size_t before) {
  std::erase_if(course_.outliving, [&](const auto& outliving) {
    const auto [record, through] = outliving;
    if (through >= before) return false;
    record->outlives = false;
    dispose_if_unneeded(record);
    unref(record);
    return true;
  });
}

Record* Engine::find_part(const Leaving& leaving, std::span<const Use> uses, std::span<Record* const> outputs) {
  if (leaving.part == Part::output) return leaving.nth < outputs.size() ? outputs[leaving.nth] : nullptr;
  std::uint16_t nth = 0;
  for (const Use& use : uses) {
    if (use.write == (leaving.part == Part::mutated) && nth++ == leaving.nth) return use.record;
  }
  return nullptr;
}

void Engine::note_step_op(const OpNote& note, OpKey key) {
  const PlanningTime::Part part(planning_time_, recorder_.on());
  recorder_.op(note, key);
  if (!tape_.on()) return;
  OpNote told = note;
  // Measuring slows a planned step down: it takes what it took when it was recorded.
  if (course_.on && course_.next > 0) told.duration = course_.script->device_time(course_.next - 1).value_or(note.duration);
  tape_.op(told);
}

void Engine::steer_end_step(const StepTimes& times, Lock& lock) {
  const PlanningTime::Part part(planning_time_);
  const bool measured = std::exchange(retimes_, false);
  if (opening_.on() && end_opening(lock)) return;
  take_lessons(lock);
  if (repertoire_.varies()) return end_varying_step(times, lock);
  if (doubt_.on()) return end_doubted_step(lock);
  if (course_.script) {
    const bool followed = course_.on && course_.next == course_.script->op_count();
    course_.missed = followed ? 0 : course_.missed + 1;
    stats_.planned_steps += followed ? 1 : 0;
    stats_.surprises += course_.surprises;
    settle_layout(followed, lock);
    const bool host_late = course_.near_end && device_.query(*course_.near_end);
    const bool as_planned = followed && (course_.surprises == 0 || course_.promise.over > 0_B);  // who lacks memory is not surprised
    course_.stride.note_step(as_planned, !planner_.busy(), host_late, [&] { return settled_now(lock); });
    follow_drift(as_planned);
    follow_lateness(followed && course_.surprises == 0);
    if (measured && followed && course_.surprises == 0) retime(times.now, lock);
    if (course_.missed >= kMostMissed) follow(nullptr, lock);
  }
  if (recorder_.on_planned_step() && !course_.script) note_recorded_time(lock);
  if (recorder_.end_step()) {
    auto steps = with_times(recorder_.take(), times.now);
    learn(steps, {}, lock);
    if (recorded_ || steps->sample) {  // it may show that sizes change, which the next step needs to know
      lock.unlock();
      study_.wait();
      lock.lock();
    }
    take_lessons(lock);
    if (repertoire_.varies()) return end_varying_step({}, lock);
    if (!steps->sample) {
      recorded_ = std::move(steps);
      reactive_steps_ = kPatience;
      plan_anew();
    }
  } else if (!recorder_.on() && course_.script && course_.missed > 0) {
    begin_recording(/*sample=*/true);
  } else if (is_tight() && !recorder_.on() && !course_.script && stats_.steps > 0) {  // as long as all fits, nothing is planned for
    const int since = kPatience - --reactive_steps_;
    if (recorded_ && std::ranges::count(kLooks, since) > 0) begin_recording(/*sample=*/true);
    else if (reactive_steps_ < 0 && !planner_.busy()) begin_recording();
  }
  if (recorder_.on_planned_step() && !course_.script) recorded_from_ = settled_now(lock);
  if (course_.steps > 0 && recorded_) follow_link(), follow_host();
  if (is_doubtful()) begin_doubt(lock);
  else change_course(lock);
  keep_plan(lock);
  retimes_ = is_time_to_retime();
}

void Engine::note_recorded_time(Lock& lock) {
  const Nanos host = device_.now() - recorded_from_;
  recorded_time_ = settled_now(lock) - recorded_from_;
  recorded_late_ = (*recorded_time_ - host).count < host.count / kLateParts;
}

// After all that would make better plans of it.
bool Engine::is_doubtful() const {
  const std::optional<Nanos> took = course_.stride.time();
  if (!options_.judges_plans || !course_.script || !took || !recorded_time_ || course_.doubted || course_.before || planner_.busy() || recorder_.on()) return false;
  return !is_time_to_retime() && Doubt::is_due(*took, course_.promise, *recorded_time_, pace_.host_step() > 0_ns);
}

void Engine::begin_doubt(Lock& lock) {
  doubt_.begin(course_.script, *course_.stride.time());
  follow(nullptr, lock);
}

void Engine::end_doubted_step(Lock& lock) {
  if (const auto better = doubt_.note_step([&] { return settled_now(lock); })) {
    const auto script = doubt_.take();
    if (*better) {
      follow(script, lock);
      course_.doubted = true;
    } else {
      planner_.cancel();
      if (left_ && recorded_) remember_later(recorded_, lock);  // the next run shall not begin by it
      reactive_steps_ = kPatience << std::min(doubt_.decline(), kMostPatience);
    }
  }
}

// A script is changed for one that promises enough, and only after it was seen how long its own steps take: what does not
// keep its promise is taken back. A change costs steps until the run has settled again.
void Engine::change_course(Lock& lock) {
  const std::optional<Nanos> time = course_.stride.time();
  if (const auto now = planner_.take_standing(); now && !course_.outdated) course_.promise = *now;
  if (course_.before && (time || course_.stride.tried() > kTrial)) {
    const auto before = std::exchange(course_.before, std::nullopt);
    if (!time || time->count > before->time.count + before->time.count / kWorth) {
      planner_.cancel();
      return follow(before->script, lock);
    }
  }
  const std::optional<Prediction> offered = planner_.offer();
  if (!offered) return;
  const bool good = course_.is_good(planner_.offers_places());
  const Nanos now = good ? course_.promise.time : 0_ns;
  const bool far_better = good && (offered->over < course_.promise.over || offered->time.count < now.count - now.count / kFarWorth);
  if (good && !far_better && !time) return;
  if (good && !far_better && offered->time.count > now.count - now.count / (planner_.busy() ? kWorth : kLastWorth)) return;
  if (!is_worth_following(*offered)) return;
  auto before = good && time ? std::optional(Course::Proven{course_.script, *time}) : std::nullopt;
  follow(planner_.take(), lock);
  course_.before = std::move(before);
}

void Engine::follow(std::shared_ptr<const Script> script, Lock& lock) {
  minutes_.note_follow(script);
  if (!script) {
    course_.set(nullptr);
    return layout_.use(nullptr);
  }
  tape_.plan(options_.plans->name, arena_.limit(), script->predicted(), script->took());
  const auto places = script->places();
  course_.set(std::move(script));
  find_away();
  layout_.use(nullptr);
  moves_ = reactive_steps_ = 0;
  if (places) adopt_places(places, lock);
}

// Who left by another script, or by none, and stays away by this one: the step before would have left it so.
void Engine::find_away() {
  std::unordered_map<StorageId, Record*> away;
  for (Record* record : away_) away.emplace(record->id, record);
  for (const auto& [gap, id] : course_.script->staying_away()) {
    const auto found = away.find(id);
    if (found != away.end()) course_.gone[gap] = {found->second, id, found->second->departures};
  }
}

// The host's clock with nothing left to do for the device.
Nanos Engine::settled_now(Lock& lock) {
  minutes_.note(CallKind::settle);
  const PlanningTime::Wait wait(planning_time_);
  lock.unlock();
  device_.synchronize(device_.record(compute_));
  const Nanos now = device_.now();
  lock.lock();
  return now;
}

// A plan that takes longer than the step it was made from, which went without one, is no help; a better one may follow. One
// that does not fit will take longer still than it says. Where the device measured how long it waited for the host nobody knows,
// before it is tried: see Note [Times of a step without a plan].
bool Engine::is_worth_following(const Prediction& offered) const {
  const bool measured = recorded_ && std::ranges::count(recorded_->timed, true) > 0;
  return !options_.judges_plans || course_.script || !recorded_time_ || offered.time <= *recorded_time_ || (measured && recorded_late_);
}

void Engine::begin_recording(bool sample) {
  if (sample) recorder_.begin_sample();
  else recorder_.begin();
  const auto tell = [&](const Record* record) {
    if (!record->hidden && !record->orphan) recorder_.birth(*record, record->owner == nullptr || record->exposed());
  };
  table_.for_each(tell);
  std::ranges::for_each(away_, tell);
  std::ranges::for_each(dropped_, tell);
  if (sample) recorder_.open_sample();
}

// For steps nothing is known of but what was recorded.
void Engine::plan_anew(SearchFrom from) {
  slack_ = kFirstSlack;
  open_need_ = 0_B;
  retimings_ = 0;
  pace_ = {};
  start_planning(from, /*outdated=*/from == SearchFrom::nothing);
}

void Engine::start_planning(SearchFrom from, bool outdated) {
  course_.outdated = outdated;
  const Bytes budget = arena_.limit() * (kSlackParts - slack_) / kSlackParts;
  Costs costs = options_.costs;
  costs.host_step = pace_.host_step();
  planner_.start({.steps = recorded_, .costs = costs, .budget = budget, .ground = ground(), .policy = options_.plans,
                  .rounds = options_.plan_rounds, .standing = outdated ? nullptr : course_.script, .from = from, .at_once = options_.plans_at_once, .threads = searching_threads(),
                  .prepare = preparing()});
}

// Who takes memory on another thread when it has time for it cannot be played again.
std::function<void(Bytes, const std::function<bool()>&)> Engine::preparing() {
  if (minutes_.on()) return {};
  return [this](Bytes bytes, const auto& stop) { mover_.prepare_host(bytes, stop); };
}

// Copies take another time than was planned with: the link is shared, or somebody else's since. Rates are those of the
// step's last copies, which may have had both directions busy: only what no sharing explains is a drift. A link that keeps on
// changing is followed ever more seldom, since every new plan costs steps.
bool Engine::take_over_link() {
  Mover::Rates seen = mover_.take_rates();
  const auto drifted = [](double now, double planned) { return now > 0 && planned > 0 && (now > planned * kDrift || now < planned / kDrift); };
  Costs& costs = options_.costs;
  // A direction nobody used is as the other: it is the same link.
  if (seen.in_nanos_per_byte == 0) seen.in_nanos_per_byte = costs.in_nanos_per_byte * seen.out_nanos_per_byte / costs.out_nanos_per_byte;
  if (seen.out_nanos_per_byte == 0) seen.out_nanos_per_byte = costs.out_nanos_per_byte * seen.in_nanos_per_byte / costs.in_nanos_per_byte;
  course_.leads.set_rate(seen.in_nanos_per_byte);
  const bool out = drifted(seen.out_nanos_per_byte, costs.out_nanos_per_byte), in = drifted(seen.in_nanos_per_byte, costs.in_nanos_per_byte);
  if ((!out && !in) || planner_.busy() || link_pause_-- > 0) return false;
  link_pause_ = next_link_pause_;
  next_link_pause_ = std::min(next_link_pause_ * 2, kLongestLinkPause);
  const auto take_over = [](double now, double& nanos, double& price) {
    price *= now / nanos;  // kernels beside a copy are slower as long as it takes
    nanos = now;
  };
  if (out) take_over(seen.out_nanos_per_byte, costs.out_nanos_per_byte, costs.out_price);
  if (in) take_over(seen.in_nanos_per_byte, costs.in_nanos_per_byte, costs.in_price);
  minutes_.note_rates(costs);
  return true;
}

void Engine::follow_link() {
  if (take_over_link()) start_planning(SearchFrom::nothing);
}

// What is less than a drift makes ways back late, too. How late they were may be known only some steps later.
void Engine::follow_lateness(bool as_planned) {
  Leads& leads = course_.leads;
  if (!as_planned) return leads.give_up();
  if (const auto step = leads.looks_at(); step && waits_.is_over(*step)) leads.judge(*course_.script, options_.costs);
  if (!leads.looks_at() && course_.stride.settled()) leads.look_at(step_);
}

// The plan fits by bytes and yet somebody had to leave unasked: memory nobody planned for. Where it does not, somebody has to
// in every step, and a plan for less would only lack more.
void Engine::plan_with_more_slack() {
  if (slack_ >= kMostSlack || planner_.busy() || !recorded_ || course_.promise.over > 0_B) return;
  ++slack_;
  start_planning(SearchFrom::choices, /*outdated=*/false);
}

// Memory went to and fro between places and the rest: that takes more than was left to it, in granules of which some are never
// full. Whoever searches meanwhile searches for what will not do.
void Engine::plan_with_more_open() {
  const Bytes most = arena_.limit() / kMostOpenParts;
  if (open_need_ >= most || (course_.outdated && planner_.busy()) || !recorded_) return;
  const Bytes step = round_up(arena_.limit() / kSlackParts, options_.granule);
  const Bytes seen = layout_.misses() == 0 ? open_peak_ + open_peak_ / 4 : 0_B;  // otherwise some were there that have places
  open_need_ = std::min(std::max(open_need_, seen) + step, most);
  start_planning(planner_.busy() ? SearchFrom::everywhere : SearchFrom::choices);
}

// A step by the script should want nothing else: nobody leaves unasked, and no memory is put together anew. Otherwise who
// is in the way of places moves, and if that does not help, plans leave more room.
void Engine::settle_layout(bool followed, Lock& lock) {
  const bool remapped = std::exchange(remaps_, arena_.remaps()) != arena_.remaps();
  placed_steps_ = followed && layout_.is_placed() ? placed_steps_ + 1 : 0;
  if (placed_steps_ > 0) ++stats_.placed_steps, stats_.misplaced += layout_.misses();
  if (!followed || course_.script->gap_count() == 0) return;  // where nobody leaves, every place is good
  const bool steady = placed_steps_ >= kSettlingSteps || !course_.script->places();
  if (!steady || (course_.surprises == 0 && (!remapped || !layout_.is_placed()))) return;
  if (layout_.is_placed() && moves_++ < kMostMoves) {
    placed_steps_ = 0;
    minutes_.note(CallKind::move_house);
    move_house(lock);
  } else if (course_.surprises == 0) {
    plan_with_more_open();
  } else {
    plan_with_more_slack();
  }
}

void Engine::adopt_places(std::shared_ptr<const Places> places, Lock& lock) {
  layout_.use(std::move(places));
  // Gaps are numbered anew, and some who last lie where they should already.
  for (const auto* absent : {&away_, &dropped_}) {
    for (Record* record : *absent) record->gap.reset();
  }
  table_.for_each([&](const Record* record) {
    const Bytes whole = round_up(record->size, options_.alignment);
    if (const auto place = layout_.find_lasting_place(record->id, whole); place && place->range == record->block.range) {
      layout_.took(record->block.chunk, whole, place);
    }
  });
  move_house(lock);
  placed_steps_ = 0;
}

// Whoever stays and is in the way of places packs up, and comes back elsewhere, side by side, when somebody wants it; the
// first time that is everybody, so that memory for the places comes free in whole granules.
void Engine::move_house(Lock& lock) {
  const bool first = !std::exchange(moved_house_, true);
  std::vector<Record*> all;
  table_.for_each([&](Record* record) {
    const bool in_the_way = record->block.range.begin >= arena_.placed_from() && !layout_.is_in_place(record->block.chunk);
    if (may_leave(*record) && (first || in_the_way)) all.push_back(record);
  });
  evict_these(all, Leave::move, lock);
  const PlanningTime::Wait wait(planning_time_);
  lock.unlock();
  arena_.trim(/*wait=*/true);
  lock.lock();
}

// The rest of the step goes without one; what repeats is planned anew.
void Engine::leave_plans() {
  let_outliving_go(std::numeric_limits<std::size_t>::max());
  planner_.cancel();
  recorder_.abandon();
  sated_ = false;
  (void)doubt_.take();
  retimes_ = false;
  recorded_.reset();
  reactive_steps_ = 0;
  course_.set(nullptr);
  course_.begin_step();
  layout_.use(nullptr);
  layout_.begin_step(false);
  moved_house_ = false;
}

}  // namespace spillway
