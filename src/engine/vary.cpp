// Steps whose sizes change: each begins unknown, is recognised by what its first ops show, and goes on by a script made for
// its size or a little more, if there is one. Everything a script gets wrong is left to the reactive evictor.
#include <algorithm>
#include <array>
#include <utility>

#include "engine/engine.h"

namespace spillway {

namespace {

constexpr std::int64_t kSlackParts = 100, kSlack = 4;  // of the budget: holes between storages, and what is not planned
constexpr int kRounds = 2;                             // of improvement: there are many sizes to plan for
constexpr std::int64_t kRest = 4;  // steps between plans nobody waits for: two busy threads may share a core. The more plans are thrown
                                   // away for others, the longer

}  // namespace

void Engine::watch_op(std::span<const Use> uses, std::span<Record* const> outputs, Lock&) {
  const PlanningTime::Part part(planning_time_);
  Repertoire::Sizes sizes;
  for (const Use& use : uses) sizes[static_cast<std::size_t>(use.write ? Part::mutated : Part::input)].push_back(use.record->size);
  for (const Record* record : outputs) sizes[static_cast<std::size_t>(Part::output)].push_back(record->size);
  repertoire_.op(op_shape_, std::move(sizes));
  if (repertoire_.watches()) return;
  if (child_) return;
  Repertoire::Found found = repertoire_.find_script(room_for_plans());
  stats_.foreseen_steps += found.fits || found.script ? 1 : 0;
  stats_.reused_plans += found.reused ? 1 : 0;
  stats_.fitting_steps += found.fits ? 1 : 0;
  stats_.extended_plans += found.extended ? 1 : 0;
  if (recorder_.on_planned_step() && !repertoire_.teaches()) recorder_.abandon();
  if (found.script) {
    const Bytes limit = std::min(found.script->budget() + found.beside, room_for_plans());
    join_course({.script = std::move(found.script), .limit = limit, .next = repertoire_.ops_seen(), .spared = std::move(found.spared)});
  }
}

void Engine::join_course(Joining at) {
  minutes_.note_join(at.script, at.limit, at.next, at.spared);
  tape_.plan(options_.plans->name, arena_.limit(), at.script->predicted(), at.script->took());
  auto gone = at.script == course_.script ? std::move(course_.gone) : decltype(course_.gone){};  // by this script, before the step left it
  course_.set(std::move(at.script), std::move(at.spared));
  if (!gone.empty()) course_.gone = std::move(gone);
  course_.limit = at.limit;
  course_.begin_step();
  course_.next = at.next;
  find_away();
  for (std::size_t op = 0; op < course_.next; ++op) {
    const auto fetches = course_.script->fetches(op);
    course_.due.insert(course_.due.end(), fetches.begin(), fetches.end());
  }
}

void Engine::end_varying_step(const StepTimes& times, Lock& lock) {
  const bool followed = course_.script && course_.on && course_.next == course_.script->op_count();
  if (course_.script) {
    stats_.planned_steps += followed ? 1 : 0;
    stats_.surprises += course_.surprises;
    repertoire_.note_course(followed);
  }
  ++stats_.varying_steps;
  if (take_over_link()) repertoire_.outdate_scripts(), sated_ = false;
  if (recorder_.end_step()) learn(std::make_shared<RecordedSteps>(recorder_.take()), times, lock);
  take_lessons(lock);
  if (!recorder_.on() && repertoire_.wants_samples(/*strayed=*/course_.script && !followed)) begin_recording(/*sample=*/true);
  plan_for_sizes(lock);
  follow(nullptr, lock);
  repertoire_.begin_step(live_);
}

Bytes Engine::room_for_plans() const { return arena_.limit() * (kSlackParts - kSlack) / kSlackParts; }

// The training thread hands over what takes long; what comes of it is there some steps later.
void Engine::do_later(Study::Job job, Lock& lock) {
  if (!options_.plans_at_once && !minutes_.on() && !options_.prompted) return study_.hand_over(std::move(job));
  lock.unlock();
  job();
  lock.lock();
}

void Engine::learn(std::shared_ptr<RecordedSteps> steps, const StepTimes& times, Lock& lock) {
  do_later([this, steps = std::move(steps), times] {
    set_times(*steps, times.get());
    auto lesson = repertoire_.study(steps);
    Lock lock(mutex_);
    if (lesson) lessons_.push_back(std::move(*lesson));
    remember(steps, lock);
  }, lock);
}

void Engine::remember_later(std::shared_ptr<const RecordedSteps> steps, Lock& lock) {
  do_later([this, steps = std::move(steps)] {
    Lock lock(mutex_);
    remember(steps, lock);
  }, lock);
}

// Between steps. Which steps are worth keeping depends on whether sizes change: the one that showed it was taken for one of many.
// What lessons leave is taken down where there is time: a step's thousands of small lists take as long as planning does.
void Engine::take_lessons(Lock& lock) {
  if (lessons_.empty()) return;
  sated_ = false;
  std::vector<Repertoire::Lesson> lessons;
  lessons.swap(lessons_);
  for (Repertoire::Lesson& lesson : lessons) {
    const auto steps = lesson.steps;
    const bool varied = repertoire_.varies();
    repertoire_.take_in(lesson);
    if (!varied && repertoire_.varies() && steps->sample) remember_later(steps, lock);
  }
  do_later([spent = std::move(lessons)] {}, lock);
}

void Engine::plan_for_sizes(Lock& lock) {
  if (recorded_) {  // what is under way is for one size
    planner_.cancel();
    recorded_.reset();
  }
  auto script = planner_.take();
  const bool told = script != nullptr;
  if (told) repertoire_.keep(std::move(script));
  if (choosing_ || (planner_.busy() && !(told && repertoire_.is_asked()))) return;
  const bool asked = repertoire_.is_asked(), hurries = asked && repertoire_.turnover() == 0;
  if (!hurries && (stats_.steps < rests_until_ || (sated_ && !told && !asked))) return;  // nobody is woken for nothing
  rests_until_ = stats_.steps + kRest * (1 + repertoire_.turnover());
  choosing_ = true;
  do_later([this] { choose_size(); }, lock);
}

// The next size to plan for that has no room as it is, if there is one.
void Engine::choose_size() {
  Lock lock(mutex_);
  sated_ = true;
  while (auto order = plans() ? repertoire_.next_order() : std::nullopt) {
    lock.unlock();
    const auto wanted = Repertoire::foresee(std::move(*order));
    lock.lock();
    const Bytes room = room_for_plans();
    if (auto made = planner_.take()) repertoire_.keep(std::move(made));
    const auto budget = wanted && plans() ? repertoire_.begin_script(*wanted, room) : std::nullopt;
    if (!budget) continue;
    planner_.start({.steps = wanted->order.steps, .foreseen = wanted->step, .costs = options_.costs, .budget = *budget,
                    .ground = {}, .policy = options_.plans, .rounds = kRounds, .quick = wanted->order.quick, .from = SearchFrom::nothing,
                    .at_once = options_.plans_at_once});
    if (auto made = planner_.take()) repertoire_.keep(std::move(made));  // done at once
    sated_ = false;
    break;
  }
  choosing_ = false;
}

}  // namespace spillway
