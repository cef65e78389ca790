#include "plan/prices.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "plan/link.h"

namespace spillway {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kLinkSlots = 64;
constexpr int kMostRounds = 400;

class Market {
 public:
  // `made`, `open`: as choose_more_by_price has them; none: nothing is chosen yet, and all are open.
  Market(const Problem& problem, const Outcome& now, Bytes budget, std::span<const Choice> made = {}, const std::vector<bool>& open = {})
      : problem_(problem), ops_(problem.step().op_count()), starts_(now.starts), remedies_(problem.gap_count(), Remedy::keep),
        relieved_(problem.gap_count()), out_(starts_[ops_], kLinkSlots), in_(starts_[ops_], kLinkSlots) {
    for (const Bytes during : now.during) lack_.push_back((during - budget).count);
    prices_.resize(ops_);
    find_offers(open);
    for (GapPlace gap = 0; gap < made.size(); ++gap) {
      if (made[gap].remedy == Remedy::move) book(gap, made[gap].fetch_at);
    }
    find_moves();
  }

  std::vector<Remedy> settle() {
    for (int round = 0; round < kMostRounds; ++round) {
      const auto worst = std::ranges::max_element(lack_);
      if (worst == lack_.end() || *worst <= 0) break;
      if (!raise(static_cast<OpPlace>(worst - lack_.begin()))) *worst = 0;  // nobody left: up to the timeline
    }
    for (const Offer& offer : offers_) {
      if (relieved_[offer.gap]) remedies_[offer.gap] = offer.remedy;
    }
    return remedies_;
  }

  // Those that settle() relieves, in its order.
  [[nodiscard]] const std::vector<GapPlace>& relieved_in_order() const { return order_; }

 private:
  // The cheapest remedy of a gap that covers an op in need.
  struct Offer {
    GapPlace gap = 0;
    Remedy remedy = Remedy::keep;
    double time = kNever;
    OpPlace first = 0, last = 0;  // of the ops in need that it covers; from op_count() on: of the next step
  };

  [[nodiscard]] Nanos start_of(OpPlace op) const { return op < ops_ ? starts_[op] : starts_[ops_] + starts_[op - ops_]; }
  [[nodiscard]] double bytes(GapPlace gap) const { return static_cast<double>(problem_.size(gap).count); }

  // The ops in need of this step and the next, in order.
  [[nodiscard]] std::vector<OpPlace> find_needy() const {
    std::vector<OpPlace> needy;
    for (OpPlace op = 0; op < 2 * ops_; ++op) {
      if (lack_[op % ops_] > 0) needy.push_back(op);
    }
    return needy;
  }

  void find_offers(const std::vector<bool>& open) {
    const std::vector<OpPlace> needy = find_needy();
    for (GapPlace gap = 0; gap < problem_.gap_count(); ++gap) {
      if (!open.empty() && !open[gap]) continue;
      const Gap& over = problem_.gaps()[gap];
      const auto first = std::ranges::lower_bound(needy, over.begin), end = std::ranges::lower_bound(needy, over.end);
      if (first == end) continue;
      Offer offer{.gap = gap, .first = *first, .last = *(end - 1)};
      if (problem_.may_drop(gap)) {
        offer.remedy = Remedy::drop;
        offer.time = static_cast<double>(problem_.rebuild_time(gap).count);
      }
      offers_.push_back(offer);
    }
  }

  // A move that was chosen has its time on the link, if there is any left.
  void book(GapPlace gap, OpPlace fetch_at) {
    const Costs& costs = problem_.costs();
    const Gap& over = problem_.gaps()[gap];
    const Bytes size = problem_.size(gap);
    if (!problem_.stays_clean(over.storage)) (void)try_take(out_, over.begin, over.end, problem_.copy_time(size, costs.out_nanos_per_byte));
    if (problem_.comes_back(gap)) (void)try_take(in_, std::min(fetch_at, over.end), over.end, problem_.copy_time(size, costs.in_nanos_per_byte));
  }

  // The link goes to those whom it saves most per byte.
  void find_moves() {
    const Costs& costs = problem_.costs();
    std::vector<std::size_t> order(offers_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto saving = [&](std::size_t at) { return offers_[at].time / bytes(offers_[at].gap); };
    std::ranges::stable_sort(order, std::greater{}, saving);
    for (const std::size_t at : order) {
      Offer& offer = offers_[at];
      const bool clean = problem_.stays_clean(problem_.gaps()[offer.gap].storage);
      const double price = problem_.price_of_move(offer.gap);
      if (!problem_.may_move(offer.gap) || price >= offer.time) continue;
      const Gap& over = problem_.gaps()[offer.gap];
      const Bytes size = problem_.size(offer.gap);
      const Nanos way_out = problem_.copy_time(size, costs.out_nanos_per_byte), way_in = problem_.copy_time(size, costs.in_nanos_per_byte);
      if (!clean && !try_take(out_, over.begin, offer.first, way_out)) continue;
      if (problem_.comes_back(offer.gap) && !try_take(in_, offer.last + 1, over.end, way_in)) continue;
      offer.remedy = Remedy::move;
      offer.time = price;
    }
  }

  // Between two ops, of which the later may be one of the next step: then the copy has what lies in this or in that.
  [[nodiscard]] bool try_take(Link& link, OpPlace from, OpPlace until, Nanos takes) const {
    const Nanos step = starts_[ops_], begin = start_of(from), end = start_of(until);
    if (end <= step) return link.try_take(begin, end, takes);
    if (begin >= step) return link.try_take(begin - step, end - step, takes);
    return step - begin > end - step ? link.try_take(begin, step, takes) : link.try_take({}, end - step, takes);
  }

  [[nodiscard]] bool covers(const Offer& offer, OpPlace op) const {
    const Gap& over = problem_.gaps()[offer.gap];
    return (op >= over.begin && op < over.end) || op + ops_ < over.end;
  }

  // What the gap's relief earns by the prices so far.
  [[nodiscard]] double earns(const Offer& offer) const {
    const Gap& over = problem_.gaps()[offer.gap];
    const OpPlace end = std::min(offer.last + 1, over.end);
    double sum = add_prices(0, offer.first, std::min(end, ops_));
    if (end > ops_) sum = add_prices(sum, offer.first > ops_ ? offer.first - ops_ : 0, end - ops_);
    return sum * bytes(offer.gap);
  }

  // Of this step's ops [begin, end), on top of `sum`.
  [[nodiscard]] double add_prices(double sum, OpPlace begin, OpPlace end) const {
    for (auto op = std::ranges::lower_bound(priced_, begin); op != priced_.end() && *op < end; ++op) sum += prices_[*op];
    return sum;
  }

  // Raises the price at the op until enough gaps leave it. False when nobody can.
  bool raise(OpPlace op) {
    std::vector<std::pair<double, std::size_t>> bids;  // the price at which each would leave
    for (std::size_t at = 0; at < offers_.size(); ++at) {
      const Offer& offer = offers_[at];
      if (relieved_[offer.gap] || offer.time == kNever || !covers(offer, op)) continue;
      bids.emplace_back(std::max(0.0, offer.time - earns(offer)) / bytes(offer.gap), at);
    }
    if (bids.empty()) return false;
    std::ranges::sort(bids);
    if (const auto place = std::ranges::lower_bound(priced_, op); place == priced_.end() || *place != op) priced_.insert(place, op);
    std::int64_t lack = lack_[op];
    for (const auto& [price, at] : bids) {
      if (lack <= 0) break;
      lack -= problem_.size(offers_[at].gap).count;
      prices_[op] = std::max(prices_[op], price);
      relieve(offers_[at]);
    }
    return true;
  }

  void relieve(const Offer& offer) {
    relieved_[offer.gap] = true;
    order_.push_back(offer.gap);
    const Gap& over = problem_.gaps()[offer.gap];
    for (OpPlace op = over.begin; op < over.end; ++op) lack_[op % ops_] -= problem_.size(offer.gap).count;
  }

  const Problem& problem_;
  const OpPlace ops_;
  const std::vector<Nanos>& starts_;
  std::vector<std::int64_t> lack_;  // by op: bytes over the budget; negative: to spare
  std::vector<double> prices_;      // nanoseconds per byte
  std::vector<OpPlace> priced_;     // the ops that have one: few, beside all that a gap covers
  std::vector<Offer> offers_;
  std::vector<Remedy> remedies_;
  std::vector<bool> relieved_;
  std::vector<GapPlace> order_;     // of those
  Link out_, in_;
};

}  // namespace

std::vector<Remedy> choose_by_price(const Problem& problem, const Outcome& plain) { return Market(problem, plain, problem.budget()).settle(); }

std::vector<std::pair<GapPlace, Remedy>> choose_more_by_price(const Problem& problem, const Outcome& now, std::span<const Choice> made,
                                                              const std::vector<bool>& open, Bytes budget) {
  Market market(problem, now, budget, made, open);
  const std::vector<Remedy> remedies = market.settle();
  std::vector<std::pair<GapPlace, Remedy>> chosen;
  for (const GapPlace gap : market.relieved_in_order()) {
    if (remedies[gap] != Remedy::keep) chosen.emplace_back(gap, remedies[gap]);
  }
  return chosen;
}

}  // namespace spillway
