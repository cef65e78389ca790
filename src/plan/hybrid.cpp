// Keep, move or drop, gap by gap: the change that relieves most for its time is made until everything fits, then choices
// that turned out superfluous or dear are taken back.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <utility>

#include "plan/papers.h"
#include "plan/prices.h"
#include "plan/segments.h"
#include "plan/timeline.h"

namespace spillway {

namespace {

// The candidates of each remedy that look best are run through the timeline, because only it knows of the link's queue and
// of chains that meet.
constexpr std::size_t kTried = 3;
// A way back starts so much before the latest moment: the link is shared and kernels are not punctual.
constexpr double kLateness = 0.04;
constexpr Nanos kSlack = 30_us;
// By prices: what still lacks after so many changes is better begun by segments.
constexpr int kFewChanges = 60;
constexpr int kManyChanges = 150;  // and after so many from segments, from nothing
// By prices alone: parts of the budget that are left out where the timeline needs more than prices know of.
constexpr std::array<std::int64_t, 3> kSpareParts{64, 24, 10};
constexpr int kManyTries = 1000;  // worth to look behind them for what is superfluous
constexpr int kLooksATry = 10;  // most look at changes that promise nothing, which costs next to nothing
constexpr std::array<std::uint32_t, 5> kSegments{4, 8, 16, 24, 48};
constexpr std::array<std::int64_t, 3> kLessParts{32, 16, 8};  // of the budget, that a plan is made without
// Parts of what a plan costs by which a change may make it worse at first, by seed: a little leads out of small hollows, more out
// of large ones, and none goes straight down. Which is best differs from step to step.
constexpr std::array<double, 3> kWarmth{0.02, 0, 0.005};
constexpr double kCooling = 0.01;  // of that, at last
constexpr double kLeastCost = 0.01;  // of a step's time

bool is_held(std::span<const Hold> holds, StoragePlace storage) { return std::ranges::find(holds, storage, &Hold::storage) != holds.end(); }

// What the host does shows on the card or hides behind it: half of it counts.
Nanos weight(const Prediction& outcome) { return outcome.time + outcome.effort / 2; }

class Search {
 public:
  explicit Search(const PlanRequest& request) : problem_(request), timeline_(problem_), choices_(problem_.gap_count()) {
    evaluate();
  }

  // As it is, or with its ways back placed anew where that is better.
  void go_on_from(const Plan& plan) {
    choices_ = choices_of(problem_, plan);
    judge();
    const std::vector<Choice> given = choices_;
    const Outcome outcome = now_;
    evaluate();
    if (now_.sum.over > 0_B) wait_for_room();
    if (!is_better(outcome.sum, now_.sum)) return;
    choices_ = given;
    judge();
  }

  // From here on a way back is not enqueued before ops that have no room for it, at the price of a stall.
  void wait_for_room() {
    patient_ = true;
    evaluate();
  }

  // As if every op took so much more.
  void choose(Bytes more = 0_B) {
    Outcome plain = now_;
    for (Bytes& during : plain.during) during += more;
    const std::vector<Remedy> remedies = choose_by_price(problem_, plain);
    for (GapPlace gap = 0; gap < problem_.gap_count(); ++gap) choices_[gap] = {remedies[gap], problem_.gaps()[gap].end};
    evaluate();
    evaluate();  // ways back are placed by the times of the evaluation before
  }

  void keep_all() {
    choices_.assign(problem_.gap_count(), {});
    evaluate();
  }

  // Whatever a forward pass in so many segments leaves for the backward is dropped, except what crosses a border.
  void drop_inside(std::uint32_t segments) {
    const Liveness& step = problem_.step();
    const std::vector<std::uint32_t> segment = cut_forward_where_little_crosses(step, segments);
    for (GapPlace at = 0; at < problem_.gap_count(); ++at) {
      const Gap& gap = problem_.gaps()[at];
      const bool saved = problem_.comes_back(at) && gap.end < step.op_count() && step.ops()[gap.begin - 1].phase == Phase::forward && step.ops()[gap.end].phase == Phase::backward;
      const bool inside = saved && problem_.may_drop(at) && !crosses(step, gap.storage, segment);
      choices_[at] = {inside ? Remedy::drop : Remedy::keep, gap.end};
    }
    evaluate();
  }

  // The number of segments, of those tried, that leaves least to relieve.
  void drop_inside_best() {
    std::uint32_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (const std::uint32_t segments : kSegments) {
      drop_inside(segments);
      const double left = missing_ > 0 ? missing_ : -1.0 / static_cast<double>(now_.sum.time.count);
      if (left < least) std::tie(best, least) = std::pair(segments, left);
    }
    drop_inside(best);
  }

  [[nodiscard]] bool fits() const { return now_.sum.over == 0_B; }

  // Until it fits or nothing helps any more, by at most so many changes.
  void relieve(int most = std::numeric_limits<int>::max()) {
    while (now_.sum.over > 0_B && most-- > 0 && relieve_once()) {
    }
  }

  // Takes back whatever is not needed, the dearest first.
  void prune() {
    std::vector<GapPlace> chosen;
    for (GapPlace gap = 0; gap < problem_.gap_count(); ++gap) {
      if (choices_[gap].remedy != Remedy::keep) chosen.push_back(gap);
    }
    std::ranges::stable_sort(chosen, std::greater{}, [&](GapPlace gap) { return price(gap, choices_[gap].remedy); });
    std::mt19937 unused;
    for (const GapPlace gap : chosen) (void)try_changes({{gap, Remedy::keep}}, unused);
  }

  // By changes of which, as long as it is warm, some make it worse; ends with the best it has been.
  void improve(int tries, std::uint32_t seed) {
    if (problem_.gap_count() == 0) return;
    std::mt19937 dice(seed);
    const double plain = static_cast<double>(now_.sum.plain_time.count), costs = static_cast<double>(weight(now_.sum).count) - plain;
    const double warm = kWarmth[seed % kWarmth.size()] * std::max(costs, plain * kLeastCost);
    std::vector<Choice> best = choices_;
    double missing = missing_;
    Nanos least = weight(now_.sum);
    const auto all = static_cast<double>(tries);
    for (int looks = tries * kLooksATry; tries > 0 && looks > 0; --looks) {
      warmth_ = warm * std::pow(kCooling, 1 - static_cast<double>(tries) / all);
      tries -= try_something(dice) ? 1 : 0;
      if (!is_better_than(missing, least)) continue;
      best = choices_;
      missing = missing_;
      least = weight(now_.sum);
    }
    warmth_ = 0;
    choices_ = std::move(best);
    judge();
  }

  [[nodiscard]] Plan plan() const {
    Plan plan{.gaps = {}, .holds = holds_of(problem_, choices_), .predicted = now_.sum, .judged = judged_};
    for (GapPlace gap = 0; gap < problem_.gap_count(); ++gap) {
      if (choices_[gap].remedy == Remedy::keep || (!problem_.comes_back(gap) && is_held(plan.holds, problem_.gaps()[gap].storage))) continue;
      plan.gaps.push_back({problem_.gaps()[gap], choices_[gap].remedy, choices_[gap].fetch_at, choices_[gap].again});
    }
    std::ranges::stable_sort(plan.gaps, {}, [](const PlannedGap& planned) { return planned.gap.begin; });
    return plan;
  }

 private:
  struct Candidate {
    GapPlace gap = 0;
    Remedy remedy = Remedy::keep;
    double score = 0;  // nanoseconds per byte over budget relieved: lower is better
    bool again = false;
  };

  [[nodiscard]] bool allows(GapPlace gap, Remedy remedy) const {
    return remedy == Remedy::keep || (remedy == Remedy::move ? problem_.may_move(gap) : problem_.may_drop(gap));
  }

  // Nanoseconds, as long as the link has room and all ancestors are there.
  [[nodiscard]] double price(GapPlace gap, Remedy remedy) const {
    if (remedy == Remedy::move) return problem_.price_of_move(gap);
    return remedy == Remedy::drop ? static_cast<double>(problem_.rebuild_time(gap).count) : 0.0;
  }

  void evaluate() {
    place_fetches();
    judge();
    if (!patient_) return;
    place_fetches();  // room is known by where ways back were enqueued before
    judge();
  }

  void judge() {
    if (std::exchange(trying_, false)) std::swap(now_, before_.outcome);
    std::swap(now_, timeline_.run(choices_));
    ++judged_;
    missing_ = missing(now_);
  }

  // What is changed and judged from here on can be undone.
  void try_out() {
    before_.choices = choices_;
    before_.missing = missing_;
    trying_ = true;
  }

  void undo() {
    std::swap(choices_, before_.choices);
    std::swap(now_, before_.outcome);
    missing_ = before_.missing;
  }

  [[nodiscard]] bool is_better_than(double missing, Nanos weighs) const { return missing_ < missing || (missing_ == missing && weight(now_.sum) < weighs); }
  [[nodiscard]] bool is_better_than_before() const { return is_better_than(before_.missing, weight(before_.outcome.sum)); }

  // Better, or worse by so little that it may be while it is warm.
  [[nodiscard]] bool may_stay(std::mt19937& dice) const {
    if (warmth_ == 0 || missing_ != before_.missing) return is_better_than_before();
    const double worse = static_cast<double>((weight(now_.sum) - weight(before_.outcome.sum)).count);
    return worse < 0 || std::generate_canonical<double, 32>(dice) < std::exp(-worse / warmth_);
  }

  // Bytes over budget, summed over ops: what a change must lessen.
  [[nodiscard]] double missing(const Outcome& outcome) const {
    double sum = 0;
    for (const Bytes during : outcome.during) sum += static_cast<double>(std::max(during - problem_.budget(), 0_B).count);
    return sum;
  }

  // Each way back as late as an in-order link allows, by the times of the last evaluation.
  void place_fetches() {
    std::vector<GapPlace> moved;
    for (GapPlace gap = 0; gap < problem_.gap_count(); ++gap) {
      if (choices_[gap].remedy == Remedy::move && problem_.comes_back(gap)) moved.push_back(gap);
    }
    if (moved.empty() || now_.starts.empty()) return;
    // One link for all steps: a way back for the next step's ops runs at the same place of every step.
    const OpPlace ops = problem_.step().op_count();
    std::ranges::stable_sort(moved, std::greater{}, [&](GapPlace gap) { return now_.needed_at[gap] % ops; });
    Nanos link_free = now_.starts[ops];
    taken_ = now_.during;
    for (const GapPlace gap : moved) {
      const Gap& over = problem_.gaps()[gap];
      const Nanos takes = problem_.copy_time(problem_.size(gap), problem_.costs().in_nanos_per_byte);
      const Nanos margin = kSlack + Nanos{static_cast<std::int64_t>(static_cast<double>(takes.count) * kLateness)};
      const OpPlace needed = now_.needed_at[gap];
      const Nanos start = std::min(now_.starts[needed % ops], link_free) - takes - margin;
      link_free = start + margin;
      const OpPlace at = last_op_before(needed < ops ? start : start + now_.starts[ops], over);
      choices_[gap].fetch_at = patient_ ? first_with_room(gap, at, needed) : at;
    }
  }

  // The first op from `at` on from which there is room until it is needed, as the last evaluation and the ways back placed
  // since leave it.
  [[nodiscard]] OpPlace first_with_room(GapPlace gap, OpPlace at, OpPlace needed) {
    const OpPlace ops = problem_.step().op_count(), before = choices_[gap].fetch_at;
    const Bytes size = problem_.size(gap);
    for (OpPlace op = needed; op > at; --op) {
      if (taken_[(op - 1) % ops] + (op - 1 < before ? size : 0_B) <= problem_.budget()) continue;
      at = op;
      break;
    }
    for (OpPlace op = at; op < before; ++op) taken_[op % ops] += size;
    for (OpPlace op = before; op < at; ++op) taken_[op % ops] -= size;
    return at;
  }

  [[nodiscard]] Nanos start_of(OpPlace op) const {
    const OpPlace ops = problem_.step().op_count();
    return op < ops ? now_.starts[op] : now_.starts[ops] + now_.starts[op - ops];
  }

  [[nodiscard]] OpPlace last_op_before(Nanos time, const Gap& gap) const {
    OpPlace low = gap.begin, high = gap.end;  // the answer is in [low, high]
    while (low < high) {
      const OpPlace middle = low + (high - low + 1) / 2;
      if (start_of(middle) <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // How much of what is missing the gap covers, from this op on.
  [[nodiscard]] double covers(GapPlace gap, OpPlace begin) const {
    const Gap& over = problem_.gaps()[gap];
    const OpPlace ops = problem_.step().op_count();
    const Bytes size = problem_.size(gap);
    double sum = 0;
    for (const auto& [op, lack] : lacking_) {
      const bool inside = (op >= begin && op < over.end) || op + ops < over.end;
      if (inside) sum += static_cast<double>(std::min(size, lack).count);
    }
    return sum;
  }

  // Ops that lack memory, at most so many: the neediest of each stretch.
  void find_lacking() {
    constexpr std::size_t kMost = 128;
    lacking_.clear();
    for (OpPlace op = 0; op < now_.during.size(); ++op) {
      const Bytes lack = now_.during[op] - problem_.budget();
      if (lack > 0_B) lacking_.push_back({op, lack});
    }
    while (lacking_.size() > kMost) {
      std::vector<std::pair<OpPlace, Bytes>> fewer;
      for (std::size_t i = 0; i + 1 < lacking_.size(); i += 2) {
        fewer.push_back(lacking_[i].second >= lacking_[i + 1].second ? lacking_[i] : lacking_[i + 1]);
      }
      lacking_.swap(fewer);
    }
  }

  // By score.
  [[nodiscard]] std::vector<Candidate> find_candidates(Remedy remedy) const {
    std::vector<Candidate> found;
    for (GapPlace gap = 0; gap < problem_.gap_count(); ++gap) {
      if (choices_[gap].remedy != Remedy::keep || !allows(gap, remedy)) continue;
      if (const double relief = covers(gap, problem_.gaps()[gap].begin); relief > 0) found.push_back({gap, remedy, (price(gap, remedy) + 1) / relief});
    }
    std::ranges::stable_sort(found, {}, &Candidate::score);
    return found;
  }

  // Who is rebuilt before its time and would relieve somebody if it left again, by score.
  [[nodiscard]] std::vector<Candidate> find_early() const {
    std::vector<Candidate> found;
    for (GapPlace gap = 0; gap < problem_.gap_count(); ++gap) {
      if (choices_[gap].again || !is_early(gap)) continue;
      if (const double relief = covers(gap, now_.needed_at[gap]); relief > 0) found.push_back({gap, Remedy::drop, (price(gap, Remedy::drop) + 1) / relief, true});
    }
    std::ranges::stable_sort(found, {}, &Candidate::score);
    return found;
  }

  // The best of the first few, or `best`; of all, as long as there is none.
  [[nodiscard]] Candidate best_of(const std::vector<Candidate>& candidates, Candidate best) {
    std::size_t tried = 0;
    for (Candidate candidate : candidates) {
      if (tried++ >= kTried && best.score < std::numeric_limits<double>::infinity()) break;
      candidate.score = score_of(candidate);
      if (candidate.score < best.score) best = candidate;
    }
    return best;
  }

  bool relieve_once() {
    find_lacking();
    constexpr double kNone = std::numeric_limits<double>::infinity();
    Candidate best{.gap = 0, .remedy = Remedy::keep, .score = kNone};
    for (const Remedy remedy : {Remedy::move, Remedy::drop}) best = best_of(find_candidates(remedy), best);
    // Who could leave has left: now those that came home early.
    if (best.score == kNone) best = best_of(find_early(), best);
    if (best.score == kNone) return false;
    apply(best);
    evaluate();
    return true;
  }

  void apply(const Candidate& candidate) { choices_[candidate.gap] = {candidate.remedy, problem_.gaps()[candidate.gap].end, candidate.again}; }

  // Nanoseconds per byte it really relieves.
  [[nodiscard]] double score_of(const Candidate& candidate) {
    try_out();
    apply(candidate);
    evaluate();
    const double gain = before_.missing - missing_;
    const double costs = static_cast<double>((weight(now_.sum) - weight(before_.outcome.sum)).count) + 1;
    undo();
    return gain > 0 ? costs / gain : std::numeric_limits<double>::infinity();
  }

  // Half of the tries question a choice that was made, half one that was not. False: it was not worth a try.
  bool try_something(std::mt19937& dice) {
    const GapPlace gap = dice() % 2 == 0 ? any_chosen(dice) : any(dice);
    const Remedy now = choices_[gap].remedy;
    if (now == Remedy::move && problem_.comes_back(gap) && dice() % 4 == 0) return shift_fetch(gap, dice);
    if (is_early(gap) && dice() % 4 == 0) return toggle_again(gap, dice);
    if (now != Remedy::keep && dice() % 4 == 0) return trade(gap, any_chosen(dice), dice);
    const Remedy other = static_cast<Remedy>(dice() % 3);
    if (other == now || !allows(gap, other)) return false;
    if (now == Remedy::keep && is_calm() && (warmth_ == 0 || dice() % 2 == 0)) return exchange(any_chosen(dice), gap, other, dice);
    if (promises(price(gap, other), price(gap, now), dice) && try_changes({{gap, other}}, dice)) return true;
    return exchange(gap, any(dice), dice() % 2 == 0 ? Remedy::move : Remedy::drop, dice);
  }

  // All fits and nobody waits: then more relief makes nothing faster.
  [[nodiscard]] bool is_calm() const { return missing_ == 0 && now_.sum.stall == 0_ns; }

  // Prices do not know of chains and queues: a few that promise nothing are tried all the same.
  [[nodiscard]] bool promises(double price, double before, std::mt19937& dice) const { return !is_calm() || price < before + 3 * warmth_ || dice() % 8 == 0; }

  // False: they were taken back.
  bool try_changes(std::initializer_list<std::pair<GapPlace, Remedy>> changes, std::mt19937& dice) {
    try_out();
    for (const auto& [gap, remedy] : changes) choices_[gap] = {remedy, problem_.gaps()[gap].end};
    evaluate();
    if (may_stay(dice)) return true;
    undo();
    return false;
  }

  // Enqueues a way back a few ops earlier or later, everything else as it is.
  bool shift_fetch(GapPlace gap, std::mt19937& dice) {
    const Gap& over = problem_.gaps()[gap];
    const OpPlace before = choices_[gap].fetch_at, by = 1 + static_cast<OpPlace>(dice() % 3);
    const OpPlace at = dice() % 2 == 0 ? std::min(before + by, over.end) : before - std::min(by, before - over.begin);
    try_out();
    choices_[gap].fetch_at = at;
    judge();
    if (!may_stay(dice)) undo();
    return true;
  }

  // It is dropped, and rebuilt before its time for another, or would be if it did not leave again.
  [[nodiscard]] bool is_early(GapPlace gap) const {
    return choices_[gap].remedy == Remedy::drop && (choices_[gap].again || now_.needed_at[gap] != problem_.gaps()[gap].end);
  }

  bool toggle_again(GapPlace gap, std::mt19937& dice) {
    try_out();
    choices_[gap].again = !choices_[gap].again;
    evaluate();
    if (!may_stay(dice)) undo();
    return true;
  }

  [[nodiscard]] GapPlace any(std::mt19937& dice) const { return static_cast<GapPlace>(dice() % problem_.gap_count()); }

  // From a random place on, the first gap that is not kept.
  [[nodiscard]] GapPlace any_chosen(std::mt19937& dice) const {
    const GapPlace start = any(dice);
    for (GapPlace i = 0; i < problem_.gap_count(); ++i) {
      const GapPlace gap = (start + i) % problem_.gap_count();
      if (choices_[gap].remedy != Remedy::keep) return gap;
    }
    return start;
  }

  // The gap is kept and another one takes its place.
  bool exchange(GapPlace gap, GapPlace other, Remedy remedy, std::mt19937& dice) {
    const Remedy now = choices_[gap].remedy;
    if (now == Remedy::keep || choices_[other].remedy != Remedy::keep || !allows(other, remedy)) return false;
    if (!promises(price(other, remedy), price(gap, now), dice)) return false;
    (void)try_changes({{gap, Remedy::keep}, {other, remedy}}, dice);
    return true;
  }

  // One has what the other had: the link is for those whom it saves most.
  bool trade(GapPlace one, GapPlace other, std::mt19937& dice) {
    const Remedy mine = choices_[one].remedy, its = choices_[other].remedy;
    if (mine == its || its == Remedy::keep || !allows(one, its) || !allows(other, mine)) return false;
    if (!promises(price(one, its) + price(other, mine), price(one, mine) + price(other, its), dice)) return false;
    (void)try_changes({{one, its}, {other, mine}}, dice);
    return true;
  }

  Problem problem_;
  Timeline timeline_;
  std::vector<Choice> choices_;
  Outcome now_;
  double missing_ = 0;
  int judged_ = 0;
  double warmth_ = 0;  // nanoseconds
  struct Before {
    std::vector<Choice> choices;
    Outcome outcome;
    double missing = 0;
  };
  Before before_;
  bool trying_ = false;  // the next outcome does not take the place of the one to go back to
  bool patient_ = false;
  std::vector<Bytes> taken_;  // by op, while ways back are placed
  std::vector<std::pair<OpPlace, Bytes>> lacking_;
};

Plan finish_patiently(Search& search) {
  search.wait_for_room();
  search.relieve();
  search.prune();
  return search.plan();
}

// Where a little less is enough for another choice of what is large, that is often the better one here, too.
Plan plan_with_less(PlanRequest request, std::int64_t part) {
  request.budget -= request.budget / part;
  return plan_hybrid(request);
}

}  // namespace

Plan plan_hybrid(const PlanRequest& request, const Plan& from) {
  Search search(request);
  if (from.gaps.empty()) search.choose();
  else search.go_on_from(from);
  search.relieve(kFewChanges);
  if (!search.fits()) {
    search.drop_inside_best();
    search.relieve(kManyChanges);
  }
  Plan best;
  if (!search.fits()) {
    best = plan_step_by_step(request);
    if (best.predicted.over == 0_B) return best;
    search.relieve();
  }
  const bool first = best.gaps.empty();
  const auto offer = [&](Plan found) {
    if (first || is_better(found.predicted, best.predicted)) best = std::move(found);
  };
  search.prune();
  offer(search.plan());
  if (best.predicted.over > 0_B) offer(finish_patiently(search));
  return best;
}

Plan plan_by_price(const PlanRequest& request) {
  Search search(request);
  search.choose();
  for (const std::int64_t part : kSpareParts) {
    if (search.fits()) break;
    search.keep_all();
    search.choose(request.budget / part);
  }
  return search.plan();
}

Plan plan_step_by_step(const PlanRequest& request) {
  Search search(request);
  search.relieve();
  search.prune();
  return search.plan();
}

// The beginnings, in this order: by prices; by prices and what relieves most; by the latter alone; from the slots a copy each
// finds on the link, as TENSILE looks for them; from a forward pass in segments, few and many; from plans for less memory; at last
// from nothing, with ways back that wait for room. Which is best differs from step to step and from budget to budget.
Plan plan_another_way(const PlanRequest& request, int way) {
  constexpr int kSegmented = 4, kWithLess = kSegmented + static_cast<int>(kSegments.size());
  static_assert(kWithLess + static_cast<int>(kLessParts.size()) == kPatientWay);
  Search search(request);
  if (way >= kPatientWay) return finish_patiently(search);
  if (way < 2) search.choose();
  else if (way == 3) search.go_on_from(plan_tensile(request));
  else if (way >= kWithLess) search.go_on_from(plan_with_less(request, kLessParts[static_cast<std::size_t>(way - kWithLess)]));
  else if (way >= kSegmented) search.drop_inside(kSegments[static_cast<std::size_t>(way - kSegmented)]);
  if (way > 0) search.relieve(way == 2 ? std::numeric_limits<int>::max() : kFewChanges);
  search.prune();
  return search.plan();
}

Plan improve(const PlanRequest& request, const Plan& plan, int tries, std::uint32_t seed) {
  Search search(request);
  search.go_on_from(plan);
  search.improve(tries, seed);
  if (tries >= kManyTries) search.prune();
  return search.plan();
}

bool is_better(const Prediction& one, const Prediction& other) {
  return one.over != other.over ? one.over < other.over : weight(one) < weight(other);
}

}  // namespace spillway
