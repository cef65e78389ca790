#include "plan/placement.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

namespace spillway {

namespace {

// Comparisons of two presences that a search may take, and rounds at least and at most.
constexpr double kWork = 2e7;
constexpr double kFewestRounds = 30, kMostRounds = 4000;

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
  const Bytes line = std::max(std::min(placed.top - Bytes{1}, enough), Bytes{});
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

  Placement best = place_in(by_size, all);
  Order order = by_size;
  if (Placement other = place_in(by_area, all); other.top < best.top) {
    best = std::move(other);
    order = by_area;
  }
  std::mt19937 random(1);
  const Bytes bound = std::max(enough, most_at_once(all));
  const auto count = static_cast<double>(all.size());
  const double rounds = std::clamp(kWork / (count * count / 2 + 1), kFewestRounds, kMostRounds);
  for (int round = 0; round < rounds && best.top > bound; ++round) {
    Order next = raised(order, best, all, bound, random);
    Placement other = place_in(next, all);
    if (other.top > best.top) continue;
    best = std::move(other);
    order = std::move(next);
  }
  return best;
}

}  // namespace spillway
