#include "engine/planner.h"

#include <algorithm>

#include "base/signals.h"
#include "liveness/liveness.h"
#include "plan/reasons.h"

namespace spillway {

namespace {

constexpr int kTriesARound = 2000;
constexpr int kAWay = 6;       // of all rounds' tries, a part for each of the other ways
constexpr int kLook = 20;      // of a way's tries, a part to see which are the best
constexpr std::size_t kBestWays = 3;
constexpr std::int64_t kDear = 5;  // a part of a step's time: a plan that costs more is worth going every way to its end
constexpr int kFruitless = 3;  // rounds in a row
constexpr int kPlacingRounds = 6;
constexpr std::int64_t kBudgetParts = 200;  // of the budget, less in every round

constexpr std::int64_t kLeastGain = 100;    // a part of a step's time

bool is_worth(const Prediction& better, const Prediction& than) {
  return better.over < than.over || better.time.count < than.time.count - than.time.count / kLeastGain;
}

bool is_dear(const Prediction& plan) { return plan.over > 0_B || plan.time.count > plan.plain_time.count + plan.plain_time.count / kDear; }

// Without places some wait for each other's memory and others leave unasked: simulated steps took up to 15 % more than was
// planned, and on a card, where memory that changes its address takes the host long, up to 60 %.
bool is_worth_places(const Prediction& placed, const Prediction& anywhere) {
  return placed.over <= anywhere.over && placed.time.count <= anywhere.time.count * 3 / 2;
}

// What the plan moves away in a step; those who are there at its end make way for places besides.
Bytes bytes_below(const Liveness& step, const Plan& plan, bool placed) {
  std::vector<bool> below(step.storage_count());
  for (const PlannedGap& planned : plan.gaps) below[planned.gap.storage] = below[planned.gap.storage] || planned.remedy == Remedy::move;
  Bytes bytes;
  for (StoragePlace at = 0; at < step.storage_count(); ++at) {
    if (below[at] || (placed && step.storages()[at].after)) bytes += step.storages()[at].size;
  }
  return bytes;
}

}  // namespace

Planner::~Planner() {
  thread_.request_stop();
  changed_.notify_all();
}

void Planner::start(PlanTask task) {
  const bool at_once = task.at_once;
  {
    const std::lock_guard lock(mutex_);
    script_.reset();
    standing_.reset();
    busy_ = true;
    if (!at_once) task_ = task;
    if (!at_once && !thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
  }
  if (!at_once) return changed_.notify_all();
  work(task);
  const std::lock_guard lock(mutex_);
  busy_ = false;
}

void Planner::cancel() {
  const std::lock_guard lock(mutex_);
  task_.reset();
  script_.reset();
  busy_ = false;
}

std::optional<Prediction> Planner::offer() const {
  const std::lock_guard lock(mutex_);
  return script_ ? std::optional(script_->predicted()) : std::nullopt;
}

std::optional<Prediction> Planner::take_standing() {
  const std::lock_guard lock(mutex_);
  return std::exchange(standing_, std::nullopt);
}

std::shared_ptr<const Script> Planner::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(script_, nullptr);
}

bool Planner::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

void Planner::wait_for_first(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [this] { return script_ || !busy_; });
}

void Planner::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void Planner::run(std::stop_token stop) {
  leave_signals_to_others();
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return task_.has_value(); })) return;
    const PlanTask task = std::move(*task_);
    task_.reset();
    lock.unlock();
    work(task);
    lock.lock();
    if (!task_) busy_ = false;
    changed_.notify_all();
  }
}

bool Planner::is_stale() const {
  const std::lock_guard lock(mutex_);
  return task_.has_value() || !busy_ || thread_.get_stop_token().stop_requested();
}

void Planner::publish(const PlanTask& task, const PlanRequest& request, std::shared_ptr<const Script> script) {
  if (task.prepare) task.prepare(bytes_below(request.step, plan_, script->places() != nullptr), [this] { return is_stale(); });
  const std::lock_guard lock(mutex_);
  if (!task_ && busy_) script_ = std::move(script);
  changed_.notify_all();
}

std::shared_ptr<const Script> Planner::write(const PlanTask& task, const PlanRequest& request, const Plan& plan, bool place) {
  std::shared_ptr<const Places> places;
  std::vector<OpPlace> fetches;
  if (place && task.ground.from > 0_B && !plan.gaps.empty()) {
    const BlockList list = list_blocks(request, plan, Layout::kSmallest);
    fetches.resize(plan.gaps.size());
    for (const PlannedBlock& block : list.blocks) {
      if (block.gap != kNoPlace) fetches[block.gap] = block.during;
    }
    places = std::make_shared<const Places>(find_places(list, request.step.op_count(), task.ground));
  }
  auto script = std::make_shared<Script>(*task.steps, request.step, plan, request.budget, std::move(places), fetches, /*any_size=*/task.foreseen != nullptr);
  script->explain(explain(request, plan));
  return script;
}

// What lacks a little is found by trying; from elsewhere, where that is not enough.
Plan Planner::with_less(const PlanTask& task, const PlanRequest& request, const Plan& plan, int round) {
  if (!task.policy->improves || task.quick) return task.policy->plan(request, plan);
  Plan found = improve(request, plan, kTriesARound, static_cast<std::uint32_t>(round));
  return found.predicted.over > 0_B ? task.policy->plan(request, found) : found;
}

std::shared_ptr<const Script> Planner::try_place(const PlanTask& task, PlanRequest& request, Plan& plan) {
  for (int round = 0; round < kPlacingRounds; ++round) {
    auto script = write(task, request, plan, /*place=*/true);
    if (!script->places() || script->places()->fits()) return script;
    if (plan.predicted.over > 0_B || is_stale()) break;
    request.budget -= script->places()->top - script->places()->room + request.budget / kBudgetParts;
    plan = with_less(task, request, plan, round);
  }
  return nullptr;
}

std::shared_ptr<const Script> Planner::plan_and_place(const PlanTask& task, PlanRequest& request) {
  plan_ = task.policy->plan(request, plan_);
  PlanRequest less = request;
  Plan placed = plan_;
  auto script = try_place(task, less, placed);
  if (!script || !is_worth_places(placed.predicted, plan_.predicted)) return write(task, request, plan_, /*place=*/false);
  request.budget = less.budget;
  plan_ = std::move(placed);
  return script;
}

void Planner::work(const PlanTask& task) {
  if (task.anew) plan_ = {};
  const auto whole = find_step(task.steps->trace, StepRecorder::kStep);
  if (!whole || whole->ops == 0) return;
  const std::shared_ptr<const Liveness> found = task.foreseen ? task.foreseen : std::make_shared<const Liveness>(task.steps->trace, *whole);
  const Liveness& step = *found;
  PlanRequest request{.step = step, .costs = task.costs, .budget = task.budget, .lean = task.steps->lean};
  const auto standing = task.standing ? std::optional(predict(request, task.standing->plan())) : std::nullopt;
  if (standing) {
    const std::lock_guard lock(mutex_);
    if (!task_) standing_ = standing;
  }
  const bool places_stand = standing && task.standing->places();  // who has places does not give them up
  auto script = plan_and_place(task, request);
  bool placed = places_stand || script->places() != nullptr;
  const bool worse_off = places_stand && !script->places();
  Prediction told = worse_off ? *standing : script->predicted();
  if (!worse_off) publish(task, request, std::move(script));
  // Places take as long to find as better plans, and every new script costs a step or two until the run has settled in it: little
  // gains are told together, at last if the one before was not taken yet.
  std::optional<Prediction> in_vain;  // that had no places
  const auto tell = [&](bool last) {
    const auto is_news = [&](const Prediction& found) { return is_worth(found, told) || (last && offer() && is_better(found, told)); };
    if (!is_news(plan_.predicted) || (in_vain && !is_worth(plan_.predicted, *in_vain))) return;
    PlanRequest less = request;
    Plan with_places = plan_;
    auto script = try_place(task, less, with_places);
    if (script && is_news(with_places.predicted) && (placed || is_worth_places(with_places.predicted, plan_.predicted))) {
      placed = placed || script->places() != nullptr;
      plan_ = std::move(with_places);
    } else if (!placed) {
      script = write(task, request, plan_, /*place=*/false);
    } else {
      in_vain = plan_.predicted;
      return;  // a better one may have places
    }
    told = plan_.predicted;
    publish(task, request, std::move(script));
  };
  const auto consider = [&](Plan found) {
    if (!is_better(found.predicted, plan_.predicted)) return;
    plan_ = std::move(found);
    tell(/*last=*/false);
  };
  if (plan_.gaps.empty() || !task.policy->improves || task.quick) return;
  const int tries = task.rounds * kTriesARound / kAWay;
  std::vector<Plan> ways;
  for (int way = 0; way < (plan_.predicted.over > 0_B ? kOtherWays : kPatientWay) && !is_stale(); ++way) ways.push_back(plan_another_way(request, way, tries / kLook));
  std::ranges::stable_sort(ways, is_better, &Plan::predicted);
  for (std::size_t way = 0; way < ways.size() && (way < kBestWays || is_dear(plan_.predicted)) && !is_stale(); ++way) {
    consider(improve(request, ways[way], way < kBestWays ? tries / 2 : tries, static_cast<std::uint32_t>(way)));
  }
  for (int round = 0, fruitless = 0; round < task.rounds && fruitless < kFruitless && !is_stale(); ++round) {
    Plan found = improve(request, plan_, kTriesARound, static_cast<std::uint32_t>(round));
    fruitless = is_better(found.predicted, plan_.predicted) ? 0 : fruitless + 1;
    consider(std::move(found));
  }
  tell(/*last=*/true);
}

}  // namespace spillway
