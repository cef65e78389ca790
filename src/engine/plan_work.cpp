#include "engine/plan_work.h"

#include <algorithm>
#include <utility>

#include "base/side_by_side.h"
#include "liveness/liveness.h"
#include "plan/prices.h"
#include "plan/reasons.h"
#include "plan/reserve.h"

namespace spillway {

namespace {

constexpr int kTriesARound = 2000;
constexpr int kLook = 40;          // of all rounds' tries, a part for each beginning
constexpr int kBeginnings = 3;     // from the same plan, where plans are dear
constexpr std::int64_t kDear = 5;  // a part of a step's time
constexpr OpPlace kManyOps = 1500; // steps with more get fewer tries, each of which takes longer
constexpr int kFruitless = 2;      // rounds in a row,
constexpr std::int64_t kFruitParts = 1000;  // of a step's time: less is none
constexpr int kPlacingRounds = 6;
constexpr std::size_t kSeeds = 2;  // in each of them
constexpr std::int64_t kBudgetParts = 200;  // of the budget, less in every round
constexpr std::int64_t kSmallestParts = 16384, kSmallestForeseen = 1024;  // of the budget
constexpr int kSearches = 3;   // each for what places take of the one before

bool is_worth(const Prediction& better, const Prediction& than, std::int64_t parts = kWorth) {
  return better.over < than.over || better.time.count < than.time.count - than.time.count / parts;
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

// By which plans have to be smaller for their places to fit: holes between these shrink with them.
Bytes bytes_too_many(const Places& places) {
  const double part = static_cast<double>(places.room.count) / static_cast<double>(places.top.count);
  return {static_cast<std::int64_t>(static_cast<double>((places.top - places.room).count) * part)};
}

}  // namespace

PlanWork::PlanWork(const PlanTask& task, const Liveness& step, Plan& plan, Desk desk)
    : task_(task),
      step_(step),
      request_{.step = step, .costs = task.costs, .budget = task.budget, .lean = task.steps->lean},
      plan_(plan),
      desk_(std::move(desk)) {
  if (!task.standing) return;
  standing_ = predict(request_, task.standing->plan());
  placed_ = task.standing->places() != nullptr;
}

void PlanWork::run() {
  begin_by_price();
  begin();
  if (plan_.gaps.empty() || !task_.policy->improves || task_.quick) return;
  for (int times = 0; times < kSearches && !desk_.is_stale(); ++times) {
    tighter_.reset();
    search();
    tell(/*last=*/true);
    if (!tighter_ || !is_worth(plan_.predicted, told_.predicted)) return;
    request_.budget = *tighter_;
    plan_ = told_;
    in_vain_.reset();
  }
}

Bytes PlanWork::smallest() const { return std::max(request_.smallest, task_.budget / (task_.foreseen ? kSmallestForeseen : kSmallestParts)); }

// Who has a script, or waits for one, has no use for it.
void PlanWork::begin_by_price() {
  is_begun_ = !task_.policy->improves || task_.quick || task_.foreseen || task_.standing || task_.from != SearchFrom::nothing;
  if (is_begun_) return;
  PlanRequest request = request_;
  request.smallest = smallest();
  begin_anywhere(request, plan_by_price(request));
}

// Without places, which are found for a better one and may take a hundred times as long.
void PlanWork::begin_anywhere(const PlanRequest& request, const Plan& plan) {
  if (is_begun_ || plan.gaps.empty() || plan.predicted.over > 0_B) return;
  is_begun_ = true;
  publish(write(request, plan, /*place=*/false));
}

// Small storages are not worth the host's time, unless it takes them.
void PlanWork::begin() {
  const Bytes least = std::exchange(request_.smallest, smallest());
  auto script = plan_and_place();
  if (plan_.predicted.over > 0_B) {
    request_.smallest = least;
    script = plan_and_place();
  }
  told_ = plan_;
  if (placed_ && !script->places()) {
    told_ = task_.standing->plan();
    told_.predicted = *standing_;
    return;
  }
  placed_ = placed_ || script->places() != nullptr;
  publish(std::move(script));
}

std::shared_ptr<Script> PlanWork::plan_and_place() {
  plan_ = task_.policy->plan(request_, plan_);
  begin_anywhere(request_, plan_);
  PlanRequest less = request_;
  Plan placed = plan_;
  auto script = try_place(less, placed);
  if (!script || !is_worth_places(placed.predicted, plan_.predicted)) return write(request_, plan_, /*place=*/false);
  request_.budget = less.budget;
  plan_ = std::move(placed);
  return script;
}

// A step foreseen is one of many, and gets the last of it only.
void PlanWork::search() {
  const int ops = static_cast<int>(std::max(step_.op_count(), kManyOps));
  const int tries = kTriesARound * static_cast<int>(kManyOps) / ops;
  std::uint32_t seed = 0;
  if (!task_.foreseen && task_.from != SearchFrom::choices) search_everywhere(task_.rounds * tries / kLook, seed);
  for (int round = 0, fruitless = 0; round < task_.rounds && fruitless < kFruitless && !desk_.is_stale(); ++round) {
    Plan found = improve(request_, plan_, tries, ++seed);
    fruitless = is_worth(found.predicted, plan_.predicted, kFruitParts) ? 0 : fruitless + 1;
    consider(std::move(found));
  }
}

// Changes that are tried one by one end where none of them helps any more, and where that is depends on where they began: so
// they begin from many plans, and the better third goes on for longer, then the best few.
void PlanWork::search_everywhere(int look, std::uint32_t& seed) {
  std::vector<Plan> plans = begin_everywhere(look, seed);
  if (plans.empty()) return;  // stale
  const auto go_on = [&](std::size_t best, int tries) {
    std::ranges::stable_sort(plans, is_better, &Plan::predicted);
    plans.erase(plans.begin() + static_cast<std::ptrdiff_t>(std::min(plans.size(), best)), plans.end());
    consider(plans.front());
    improve_all(plans, tries, seed);
  };
  go_on(std::max<std::size_t>(plans.size() / 3, 3), 2 * look);
  go_on(3, 6 * look);
  std::ranges::stable_sort(plans, is_better, &Plan::predicted);
  consider(plans.front());
  best_ = plans;
}

// From what there is, and from the best of the search before or, at first, every other way; several times where that is worth it.
std::vector<Plan> PlanWork::begin_everywhere(int tries, std::uint32_t& seed) {
  std::vector<Plan> begun = std::exchange(best_, {});
  begun.push_back(plan_);
  const int ways = begun.size() > 1 ? 0 : plan_.predicted.over > 0_B ? kOtherWays : kPatientWay;
  const std::size_t known = begun.size();
  begun.resize(known + static_cast<std::size_t>(ways));
  side_by_side(static_cast<std::size_t>(ways), task_.threads, [&](std::size_t way) {
    if (!desk_.is_stale()) begun[known + way] = plan_another_way(request_, static_cast<int>(way));
  });
  if (desk_.is_stale()) return {};
  std::vector<Plan> plans;
  for (const Plan& plan : begun) {
    for (int i = 0; i < (is_dear(plan_.predicted) ? kBeginnings : 1); ++i) plans.push_back(plan);
  }
  improve_all(plans, tries, seed);
  return plans;
}

// Each with a seed of its own, so that it does not matter who does it.
void PlanWork::improve_all(std::vector<Plan>& plans, int tries, std::uint32_t& seed) const {
  side_by_side(plans.size(), task_.threads, [&](std::size_t at) {
    if (!desk_.is_stale()) plans[at] = improve(request_, plans[at], tries, seed + 1 + static_cast<std::uint32_t>(at));
  });
  seed += static_cast<std::uint32_t>(plans.size());
}

void PlanWork::consider(Plan found) {
  if (!is_better(found.predicted, plan_.predicted)) return;
  plan_ = std::move(found);
  tell(/*last=*/false);
}

bool PlanWork::is_news(const Prediction& found, bool last) const {
  return is_worth(found, told_.predicted, last ? kLastWorth : kWorth) || (last && desk_.is_untaken() && is_better(found, told_.predicted));
}

// Places take as long to find as better plans, and every new script costs a step or two until the run has settled in it: little
// gains are told together, at last if the one before was not taken yet.
void PlanWork::tell(bool last) {
  if (!is_news(plan_.predicted, last) || (in_vain_ && !last && !is_worth(plan_.predicted, *in_vain_))) return;
  auto [script, with_places] = place_best(last);
  const bool news = script && is_news(with_places.predicted, last) && (placed_ || is_worth_places(with_places.predicted, plan_.predicted));
  if (!news && placed_) {
    in_vain_ = plan_.predicted;
    return;  // a better one may have places
  }
  if (!news) {
    script = write(request_, plan_, /*place=*/false);
    with_places = plan_;
  }
  placed_ = placed_ || script->places() != nullptr;
  told_ = with_places;
  publish(std::move(script));
}

// The best plan is not always the best once it has places: at last those that came next to it are tried, too.
std::pair<std::shared_ptr<Script>, Plan> PlanWork::place_best(bool last) {
  std::pair<std::shared_ptr<Script>, Plan> best;
  const auto offer = [&](Plan plan) {
    PlanRequest less = request_;
    auto script = try_place(less, plan);
    if (script && (!best.first || is_better(plan.predicted, best.second.predicted))) best = {std::move(script), std::move(plan)};
  };
  offer(plan_);
  for (const Plan& other : best_) {
    if (last && !desk_.is_stale() && (!best.first || is_better(other.predicted, best.second.predicted))) offer(other);
  }
  return best;
}

std::shared_ptr<Script> PlanWork::try_place(PlanRequest& request, Plan& plan) {
  for (int round = 0; round < kPlacingRounds; ++round) {
    auto script = write(request, plan, /*place=*/true);
    if (!script->places() || script->places()->fits()) return script;
    if (plan.predicted.over > 0_B || desk_.is_stale()) break;
    request.budget -= bytes_too_many(*script->places()) + request.budget / kBudgetParts;
    if (round == 0) tighter_ = request.budget;
    plan = with_less(request, plan, round);
  }
  return nullptr;
}

// What lacks a little is found by trying; from elsewhere, where that is not enough.
Plan PlanWork::with_less(const PlanRequest& request, const Plan& plan, int round) const {
  if (!task_.policy->improves || task_.quick) return task_.policy->plan(request, plan);
  std::vector<Plan> plans(kSeeds);
  side_by_side(kSeeds, task_.threads, [&](std::size_t at) {
    plans[at] = improve(request, plan, kTriesARound / static_cast<int>(kSeeds), static_cast<std::uint32_t>(static_cast<std::size_t>(round) * kSeeds + at + 1));
  });
  const Plan& best = *std::ranges::min_element(plans, is_better, &Plan::predicted);
  return best.predicted.over > 0_B ? task_.policy->plan(request, best) : best;
}

std::shared_ptr<Script> PlanWork::write(const PlanRequest& request, const Plan& plan, bool place) const {
  std::shared_ptr<const Places> places;
  std::vector<OpPlace> fetches;
  if (place && task_.ground.from > 0_B && !plan.gaps.empty()) {
    const BlockList list = list_blocks(request, plan, Layout::kSmallest);
    fetches.resize(plan.gaps.size());
    for (const PlannedBlock& block : list.blocks) {
      if (block.gap != kNoPlace) fetches[block.gap] = block.during;
    }
    places = std::make_shared<const Places>(find_places(list, step_.op_count(), task_.ground));
  }
  const bool extends = task_.foreseen && task_.policy->improves;  // the papers' plans stay as their papers say
  const std::vector<PlannedGap> reserve = extends ? plan_reserve(request, plan) : std::vector<PlannedGap>{};
  auto script = std::make_shared<Script>(*task_.steps, step_, plan, request.budget, std::move(places), fetches, /*any_size=*/task_.foreseen != nullptr, reserve);
  Plan whole = plan;
  whole.gaps.insert(whole.gaps.end(), reserve.begin(), reserve.end());
  script->explain(explain(request, whole));
  if (task_.foreseen) script->spare_in_order(dearest_first(request, plan));
  return script;
}

void PlanWork::publish(std::shared_ptr<Script> script) {
  if (task_.prepare) task_.prepare(bytes_below(step_, script->plan(), script->places() != nullptr), desk_.is_stale);
  desk_.publish(std::move(script));
}

}  // namespace spillway
