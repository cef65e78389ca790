#include "plan/placement.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
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

struct Placed {
  Bytes begin, end;
  Presence presence;
};

enum class Fit : std::uint8_t { lowest, tightest };

// Among those placed before, by begin, that are there at the same time; above them all where no gap is long enough.
Bytes find_gap(const std::vector<Placed>& placed, const Presence& one, Fit fit) {
  Bytes low, found, least{std::numeric_limits<std::int64_t>::max()};
  for (const Placed& other : placed) {
    if (other.end <= low || !meet(other.presence, one)) continue;
    if (const Bytes room = other.begin - low; room >= one.size && room < least) {
      if (fit == Fit::lowest) return low;
      found = low;
      least = room;
    }
    low = other.end;
  }
  return least.count == std::numeric_limits<std::int64_t>::max() ? low : found;
}

// Each in its turn.
Placement place_in(const Order& order, std::span<const Presence> all, Fit fit) {
  Placement result{.offsets = std::vector<Bytes>(all.size()), .top = {}};
  std::vector<Placed> placed;
  placed.reserve(all.size());
  for (const std::uint32_t at : order) {
    const Presence& one = all[at];
    const Bytes begin = find_gap(placed, one, fit), end = begin + one.size;
    result.offsets[at] = begin;
    result.top = std::max(result.top, end);
    placed.insert(std::ranges::upper_bound(placed, begin, {}, &Placed::begin), {begin, end, one});
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

// By position: the bytes that are there.
std::vector<std::int64_t> curve_of(std::span<const Presence> all) {
  std::vector<std::int64_t> there(last_position(all) + 1);
  std::int64_t now = 0;
  for (const Presence& one : all) {
    if (one.end <= one.begin) now += one.size.count;
    there[one.begin] += one.size.count;
    there[one.end] -= one.size.count;
  }
  for (std::int64_t& bytes : there) bytes = now += bytes;
  return there;
}

// The most that is there beside each of them at once, itself included.
std::vector<std::int64_t> crowds_of(std::span<const Presence> all) {
  const std::vector<std::int64_t> there = curve_of(all);
  std::vector<std::int64_t> crowds;
  for (const Presence& one : all) {
    const auto most = [&](std::uint32_t begin, std::uint32_t end) {
      const auto at = there.begin() + begin;
      return begin < end ? *std::max_element(at, there.begin() + end) : 0;
    };
    crowds.push_back(one.end > one.begin ? most(one.begin, one.end) : std::max(most(one.begin, static_cast<std::uint32_t>(there.size())), most(0, one.end)));
  }
  return crowds;
}

// Largest first, by size, by size and time, or, those first that are there when most is, by size or time.
std::vector<Order> first_orders(std::span<const Presence> all) {
  const std::uint32_t last = last_position(all);
  const auto length = [&](std::uint32_t at) { return all[at].end > all[at].begin ? all[at].end - all[at].begin : last - all[at].begin + all[at].end; };
  const std::vector<std::int64_t> crowds = crowds_of(all);
  Order by_size(all.size());
  std::iota(by_size.begin(), by_size.end(), 0U);
  std::ranges::stable_sort(by_size, std::greater{}, [&](std::uint32_t at) { return std::pair(all[at].size, length(at)); });
  const auto sorted = [&](const auto& key) {
    Order order = by_size;
    std::ranges::stable_sort(order, std::greater{}, key);
    return order;
  };
  return {by_size, sorted([&](std::uint32_t at) { return static_cast<double>(all[at].size.count) * length(at); }),
          sorted([&](std::uint32_t at) { return crowds[at]; }), sorted([&](std::uint32_t at) { return std::pair(crowds[at], length(at)); })};
}

}  // namespace

Bytes most_at_once(std::span<const Presence> all) {
  return {all.empty() ? 0 : std::ranges::max(curve_of(all))};
}

Placement place(std::span<const Presence> all, Bytes enough) {
  const Bytes bound = std::max(enough, most_at_once(all));
  struct Try {
    Placement placed;
    Order order;
    Fit fit;
  };
  std::optional<Try> best;
  for (const Order& order : first_orders(all)) {
    for (const Fit fit : {Fit::lowest, Fit::tightest}) {
      if (best && best->placed.top <= bound) break;
      Placement placed = place_in(order, all, fit);
      if (!best || placed.top < best->placed.top) best = {std::move(placed), order, fit};
    }
  }
  std::mt19937 random(1);
  const auto count = static_cast<double>(all.size());
  const double rounds = std::clamp(kWork / (count * count / 2 + 1), kFewestRounds, kMostRounds);
  for (int round = 0; round < rounds && best->placed.top > bound; ++round) {
    Order next = raised(best->order, best->placed, all, bound, random);
    Placement other = place_in(next, all, best->fit);
    if (other.top > best->placed.top) continue;
    best->placed = std::move(other);
    best->order = std::move(next);
  }
  return std::move(best->placed);
}

}  // namespace spillway
