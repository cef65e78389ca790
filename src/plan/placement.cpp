#include "plan/placement.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

namespace spillway {

namespace {

// Comparisons of two presences that a search may take, and rounds at least and at most.
constexpr double kWork = 6e7;
constexpr double kFewestRounds = 30, kMostRounds = 8000;
// The second half of a search may go up by about such a part of what is there at once before it goes down, and less and less.
constexpr double kWarmth = 0.003, kCooling = 0.05;
constexpr std::int64_t kLargeParts = 100;  // of what is there at once
constexpr std::int64_t kNearParts = 100;   // who is so near to what is enough gets more work, so many times
constexpr int kMoreWork = 2;

bool meet(const Presence& a, const Presence& b) {
  const bool a_wraps = a.end <= a.begin, b_wraps = b.end <= b.begin;
  if (a_wraps && b_wraps) return true;
  if (a_wraps) return b.end > a.begin || b.begin < a.end;
  if (b_wraps) return a.end > b.begin || a.begin < b.end;
  return a.begin < b.end && b.begin < a.end;
}

std::uint32_t last_position(std::span<const Presence> all) {
  std::uint32_t last = 0;
  for (const Presence& one : all) last = std::max({last, one.begin + 1, one.end});
  return last;
}

using Order = std::vector<std::uint32_t>;

// Each in its turn into the lowest gap among those placed before that are there at the same time.
Placement place_in(const Order& order, std::span<const Presence> all) {
  struct Placed {
    Bytes begin, end;
    Presence presence;
  };
  Placement result{.offsets = std::vector<Bytes>(all.size()), .top = {}};
  std::vector<Placed> placed;  // by begin
  placed.reserve(all.size());
  for (const std::uint32_t at : order) {
    const Presence& one = all[at];
    Bytes lowest;
    for (const Placed& other : placed) {
      if (other.begin >= lowest + one.size) break;
      if (other.end > lowest && meet(other.presence, one)) lowest = other.end;
    }
    result.offsets[at] = lowest;
    const Bytes end = lowest + one.size;
    result.top = std::max(result.top, end);
    placed.insert(std::ranges::upper_bound(placed, lowest, {}, &Placed::begin), {lowest, end, one});
  }
  return result;
}

// Those that stand highest had to take what was left: in the next round they come earlier, now first of all, now a random
// part of the way.
Order raised(const Order& order, const Placement& placed, std::span<const Presence> all, Bytes enough, std::mt19937& random) {
  const Bytes highest = placed.top - Bytes{1};
  const Bytes line = std::max(random() % 2 == 0 ? highest : std::min(highest, enough), Bytes{});
  const bool to_the_front = random() % 8 == 0;
  Order next;
  next.reserve(order.size());
  for (const std::uint32_t at : order) {
    next.push_back(at);
    if (placed.offsets[at] + all[at].size <= line) continue;
    const std::size_t to = to_the_front ? 0 : random() % next.size();
    std::rotate(next.begin() + static_cast<std::ptrdiff_t>(to), next.end() - 1, next.end());
  }
  if (next.size() > 1) std::swap(next[random() % next.size()], next[random() % next.size()]);
  return next;
}

bool may_follow(Bytes higher, double warmth, std::mt19937& random) {
  if (higher <= 0_B || warmth == 0) return higher <= 0_B;
  return std::generate_canonical<double, 32>(random) < std::exp(-static_cast<double>(higher.count) / warmth);
}

// From the best of the orders it is given to better ones.
class Search {
 public:
  Search(std::span<const Presence> all, Bytes enough) : all_(all), bound_(std::max(enough, most_at_once(all))) {}

  void begin_with(const Order& order) {
    Placement placed = place_in(order, all_);
    if (!order_.empty() && placed.top >= best_.top) return;
    best_ = std::move(placed);
    order_ = best_order_ = order;
  }

  void go_on(double work) {
    const auto count = static_cast<double>(all_.size());
    const double rounds = std::clamp(work / (count * count / 2 + 1), kFewestRounds, kMostRounds);
    Placement now = best_;
    order_ = best_order_;
    for (int round = 0; round < rounds && !is_done(); ++round) {
      Order next = raised(order_, now, all_, bound_, random_);
      Placement other = place_in(next, all_);
      const double warmth = kWarmth * static_cast<double>(bound_.count) * std::pow(kCooling, 2 * round / rounds - 1);
      if (!may_follow(other.top - now.top, 2 * round < rounds ? 0 : warmth, random_)) continue;
      now = std::move(other);
      order_ = std::move(next);
      if (now.top > best_.top) continue;
      best_ = now;
      best_order_ = order_;
    }
  }

  [[nodiscard]] bool is_done() const { return best_.top <= bound_; }
  [[nodiscard]] bool is_near(Bytes enough) const { return !is_done() && best_.top <= enough + enough / kNearParts; }
  [[nodiscard]] const Order& best_order() const { return best_order_; }
  [[nodiscard]] Placement take() { return std::move(best_); }

 private:
  std::span<const Presence> all_;
  const Bytes bound_;
  std::mt19937 random_{1};
  Placement best_;
  Order order_, best_order_;
};

// How the large ones lie decides; the others find room between them. So these are placed by themselves first, which are few.
Order large_ones_first(const Order& by_size, std::span<const Presence> all, Bytes enough) {
  const Bytes least = most_at_once(all) / kLargeParts;
  const auto large = static_cast<std::size_t>(std::ranges::find_if(by_size, [&](std::uint32_t at) { return all[at].size < least; }) - by_size.begin());
  std::vector<Presence> some;
  for (const std::uint32_t at : std::span(by_size).first(large)) some.push_back(all[at]);
  Order order(large);
  std::iota(order.begin(), order.end(), 0U);
  Search search(some, enough);
  search.begin_with(order);
  search.go_on(kWork);
  Order found = by_size;
  for (std::size_t i = 0; i < large; ++i) found[i] = by_size[search.best_order()[i]];
  return found;
}

}  // namespace

Bytes most_at_once(std::span<const Presence> all) {
  std::vector<std::int64_t> change(last_position(all) + 1);
  std::int64_t now = 0, most = 0;
  for (const Presence& one : all) {
    if (one.end <= one.begin) now += one.size.count;
    change[one.begin] += one.size.count;
    change[one.end] -= one.size.count;
  }
  for (const std::int64_t by : change) most = std::max(most, now += by);
  return {most};
}

Placement place(std::span<const Presence> all, Bytes enough) {
  const std::uint32_t last = last_position(all);
  const auto length = [&](const Presence& one) {
    return one.end > one.begin ? one.end - one.begin : last - one.begin + one.end;
  };
  Order by_size(all.size());
  std::iota(by_size.begin(), by_size.end(), 0U);
  std::ranges::stable_sort(by_size, std::greater{}, [&](std::uint32_t at) { return std::pair(all[at].size, length(all[at])); });
  Order by_area = by_size;
  std::ranges::stable_sort(by_area, std::greater{}, [&](std::uint32_t at) { return static_cast<double>(all[at].size.count) * length(all[at]); });

  Search search(all, enough);
  search.begin_with(by_size);
  search.begin_with(by_area);
  if (!search.is_done()) search.begin_with(large_ones_first(by_size, all, enough));
  search.go_on(kWork);
  for (int more = 0; more < kMoreWork && search.is_near(enough); ++more) search.go_on(kWork);
  return search.take();
}

}  // namespace spillway
