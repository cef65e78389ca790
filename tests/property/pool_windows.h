// The laws of eviction windows, and the address space without memory that windows and growth may use.
//
// The cheapest window by brute force: any window can be slid towards lower addresses, which never adds a chunk to its
// right, until its begin meets the edge of a live chunk or of memory, or as much memoryless space as the limit allows.
// So only those begins are tried.
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "shadow_pool.h"

namespace spillway::shadow {

// What the limit allows to commit.
[[nodiscard]] inline Bytes growth_room(const ShadowPool& shadow) {
  return round_down(std::max(Bytes{}, shadow.limit() - shadow.reserved()), shadow.options().granule);
}

// visit(Range) for every stretch of addresses without memory, whole granules only.
template <class Visit>
void each_gap(const ShadowPool& shadow, Visit visit) {
  Bytes offset;
  for (const auto& [begin, end] : shadow.committed().ranges()) {
    if (offset.count < begin) visit(Range{offset, {begin}});
    offset = {end};
  }
  const Range last{offset, round_down(shadow.options().address_space, shadow.options().granule)};
  if (!last.empty()) visit(last);
}

// Whether the limit allows to commit what has no memory in the range: one stretch at most.
[[nodiscard]] inline bool memory_allowed(const ShadowPool& shadow, Range range) {
  Bytes missing;
  int stretches = 0;
  each_gap(shadow, [&](Range gap) {
    if (!gap.overlaps(range)) return;
    const Bytes granule = shadow.options().granule;
    const Range part{round_down(std::max(gap.begin, range.begin), granule),
                     round_up(std::min(gap.end, range.end), granule)};
    missing += part.length();
    ++stretches;
  });
  return stretches <= 1 && missing <= growth_room(shadow);
}

// What holds for any window of any pool: it is a hole once exactly its used chunks are gone, at the price it says.
template <class Cost>
void check_window(ShadowPool& shadow, Bytes asked, Cost cost, const Window& window) {
  const auto text = [&] { return fmt::format("{} for {} bytes", to_text(window.range), asked.count); };
  shadow.require(window.range.length() >= asked, "a window has the size asked for", text);
  shadow.require(memory_allowed(shadow, window.range), "a window has memory or may get it", text);
  std::vector<ChunkId> inside;
  double total = 0;
  auto at = shadow.live().upper_bound(window.range.begin.count);
  if (at != shadow.live().begin() && std::prev(at)->second.range.end > window.range.begin) --at;
  for (; at != shadow.live().end() && at->second.range.begin < window.range.end; ++at) {
    const double price = cost(at->second.chunk);
    shadow.require(price >= 0 && std::isfinite(price), "what must stay is in no window", text);
    inside.push_back(at->second.chunk);
    total += price;
  }
  shadow.require(inside == window.evict, "a window names its used chunks by address", text);
  shadow.require(std::abs(total - window.cost) <= 1e-9 * total, "a window costs what its chunks cost", text);
}

// The cost of the window, empty when something in it must stay or memory for it cannot be had.
template <class Cost>
[[nodiscard]] std::optional<double> window_cost(const ShadowPool& shadow, Range window, Cost cost) {
  const Bytes end = round_down(shadow.options().address_space, shadow.options().granule);
  if (window.end > end || !memory_allowed(shadow, window)) return std::nullopt;
  double total = 0;
  auto at = shadow.live().upper_bound(window.begin.count);
  if (at != shadow.live().begin() && std::prev(at)->second.range.end > window.begin) --at;
  for (; at != shadow.live().end() && at->second.range.begin < window.end; ++at) {
    const double price = cost(at->second.chunk);
    if (!(price >= 0 && std::isfinite(price))) return std::nullopt;
    total += price;
  }
  return total;
}

template <class Cost>
[[nodiscard]] std::optional<double> cheapest_window(const ShadowPool& shadow, Bytes size, Cost cost) {
  std::vector<Bytes> begins{Bytes{}};
  for (const auto& [begin, holding] : shadow.live()) {
    begins.push_back(holding.range.begin);
    begins.push_back(holding.range.end);
  }
  each_gap(shadow, [&](Range gap) {
    begins.push_back(gap.begin);
    begins.push_back(gap.end);
    begins.push_back(std::max(gap.begin, gap.end - growth_room(shadow)));
  });
  std::optional<double> best;
  for (const Bytes begin : begins) {
    const std::optional<double> price = window_cost(shadow, {begin, begin + size}, cost);
    if (price && (!best || *price < *best)) best = price;
  }
  return best;
}

// The cheapest, and found where there is one. For pools without slabs.
template <class Cost>
void judge_window(ShadowPool& shadow, Bytes asked, Cost cost, const std::optional<Window>& window) {
  const std::optional<double> best = cheapest_window(shadow, round_up(asked, shadow.options().alignment), cost);
  const auto text = [&] {
    return fmt::format("{} bytes: pool {}, cheapest {}", asked.count, window ? window->cost : -1, best.value_or(-1));
  };
  if (!shadow.require(window.has_value() == best.has_value(), "a window is found where there is one", text)) return;
  if (window) shadow.require(window->cost <= *best * (1 + 1e-9), "the window is the cheapest", text);
}

}  // namespace spillway::shadow
