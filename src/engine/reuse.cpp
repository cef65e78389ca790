#include "engine/reuse.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "liveness/curve.h"

namespace spillway {

namespace {

constexpr std::size_t kMostVisits = 100'000;  // of ops while gaps are spared: a tenth of a millisecond (bench/repertoire.cpp)

struct Stretch {
  OpPlace begin = 0, end = 0;
};

// A gap over the step's end is two stretches of it.
std::array<Stretch, 2> stretches_of(const Gap& gap, OpPlace ops) {
  if (gap.end <= ops) return {Stretch{gap.begin, gap.end}, {}};
  return {Stretch{gap.begin, ops}, Stretch{0, gap.end - ops}};
}

std::vector<std::int64_t> bytes_beside(const Liveness& step, std::span<const Gap> gaps) {
  const OpPlace ops = step.op_count();
  std::vector<std::int64_t> change(ops + 1), found(ops);
  for (const Gap& gap : gaps) {
    const std::int64_t size = step.storages()[gap.storage].size.count;
    for (const Stretch& stretch : stretches_of(gap, ops)) change[stretch.begin] -= size, change[stretch.end] += size;
  }
  const LiveCurve curve = live_curve(step);
  std::int64_t away = 0;
  for (OpPlace op = 0; op < ops; ++op) {
    away += change[op];
    found[op] = curve.during[op].count + away;
  }
  return found;
}

Bytes most_of(std::span<const std::int64_t> bytes) { return {bytes.empty() ? 0 : std::ranges::max(bytes)}; }

}  // namespace

Bytes peak_beside(const Liveness& step, std::span<const Gap> gaps) { return most_of(bytes_beside(step, gaps)); }

Reuse reuse_gaps(const Liveness& step, std::span<const Gap> gaps, Bytes limit, std::span<const std::uint32_t> order) {
  std::vector<std::int64_t> bytes = bytes_beside(step, gaps);
  Reuse found{.peak = most_of(bytes), .spared = {}};
  if (found.peak > limit) return found;
  found.spared.resize(gaps.size());
  std::size_t visits = 0;
  for (std::size_t nth = 0; nth < gaps.size() && visits < kMostVisits; ++nth) {
    const std::size_t at = order.empty() ? gaps.size() - 1 - nth : order[nth];
    const std::int64_t size = step.storages()[gaps[at].storage].size.count;
    const auto both = stretches_of(gaps[at], step.op_count());
    const auto of = [&](const Stretch& stretch) { return std::span(bytes).subspan(stretch.begin, stretch.end - stretch.begin); };
    visits += of(both[0]).size() + of(both[1]).size();
    if (std::max(most_of(of(both[0])), most_of(of(both[1]))).count + size > limit.count) continue;
    found.spared[at] = true;
    for (const Stretch& stretch : both) std::ranges::for_each(of(stretch), [&](std::int64_t& sum) { sum += size; });
  }
  found.peak = most_of(bytes);
  return found;
}

}  // namespace spillway
