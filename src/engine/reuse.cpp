#include "engine/reuse.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "liveness/curve.h"

namespace spillway {

namespace {

constexpr std::size_t kMostLooks = 512;  // at gaps that may be spared: a tenth of a millisecond where there are 3,000 ops (bench/repertoire.cpp)

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

// Bytes by op: the most of a stretch and more for all of one, both in the logarithm of the ops. A node has the most of its ops, whose
// own nodes do not know what was added to all of them.
class Skyline {
 public:
  explicit Skyline(std::span<const std::int64_t> bytes) : leaves_(std::bit_ceil(std::max<std::size_t>(bytes.size(), 1))), most_(2 * leaves_, kNone), added_(leaves_) {
    std::ranges::copy(bytes, most_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (std::size_t node = leaves_ - 1; node > 0; --node) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
  }

  [[nodiscard]] std::int64_t most() const { return most_[1]; }
  [[nodiscard]] std::int64_t most(const Stretch& over) const { return over.begin < over.end ? most(over, 1, 0, leaves_) : kNone; }
  void add(const Stretch& over, std::int64_t bytes) {
    if (over.begin < over.end) add(over, bytes, 1, 0, leaves_);
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min() / 2;

  [[nodiscard]] std::int64_t most(const Stretch& over, std::size_t node, std::size_t begin, std::size_t end) const {
    if (over.begin <= begin && end <= over.end) return most_[node];
    const std::size_t middle = (begin + end) / 2;
    std::int64_t found = kNone;
    if (over.begin < middle) found = most(over, 2 * node, begin, middle);
    if (over.end > middle) found = std::max(found, most(over, 2 * node + 1, middle, end));
    return found + added_[node];
  }

  void add(const Stretch& over, std::int64_t bytes, std::size_t node, std::size_t begin, std::size_t end) {
    if (over.begin <= begin && end <= over.end) {
      most_[node] += bytes;
      if (node < leaves_) added_[node] += bytes;
      return;
    }
    const std::size_t middle = (begin + end) / 2;
    if (over.begin < middle) add(over, bytes, 2 * node, begin, middle);
    if (over.end > middle) add(over, bytes, 2 * node + 1, middle, end);
    most_[node] = std::max(most_[2 * node], most_[2 * node + 1]) + added_[node];
  }

  std::size_t leaves_;
  std::vector<std::int64_t> most_, added_;
};

}  // namespace

Bytes peak_beside(const Liveness& step, std::span<const Gap> gaps) { return most_of(bytes_beside(step, gaps)); }

namespace {

// Whoever is idle where the limit is exceeded leaves, until it is not.
void take_from_reserve(Skyline& skyline, const Liveness& step, std::span<const Gap> gaps, std::size_t first, Bytes limit, std::vector<bool>& spared) {
  for (std::size_t at = first; at < gaps.size() && skyline.most() > limit.count; ++at) {
    const auto both = stretches_of(gaps[at], step.op_count());
    if (std::max(skyline.most(both[0]), skyline.most(both[1])) <= limit.count) continue;
    spared[at] = false;
    for (const Stretch& stretch : both) skyline.add(stretch, -step.storages()[gaps[at].storage].size.count);
  }
}

void spare_gaps(Skyline& skyline, const Liveness& step, std::span<const Gap> gaps, Bytes limit, std::span<const std::uint32_t> order, std::vector<bool>& spared) {
  for (std::size_t nth = 0; nth < std::min(gaps.size(), kMostLooks); ++nth) {
    const std::size_t at = order.empty() ? gaps.size() - 1 - nth : order[nth];
    const std::int64_t size = step.storages()[gaps[at].storage].size.count;
    const auto both = stretches_of(gaps[at], step.op_count());
    if (std::max(skyline.most(both[0]), skyline.most(both[1])) + size > limit.count) continue;
    spared[at] = true;
    for (const Stretch& stretch : both) skyline.add(stretch, size);
  }
}

}  // namespace

Reuse reuse_gaps(const Liveness& step, std::span<const Gap> gaps, Bytes limit, std::span<const std::uint32_t> order, std::size_t reserve) {
  const std::size_t planned = gaps.size() - reserve;
  const std::vector<std::int64_t> bytes = bytes_beside(step, gaps.first(planned));
  Reuse found{.peak = most_of(bytes), .spared = {}};
  const bool enough = found.peak <= limit;
  if (!enough && reserve == 0) return found;
  found.spared.resize(gaps.size());
  std::fill(found.spared.begin() + static_cast<std::ptrdiff_t>(planned), found.spared.end(), true);
  Skyline skyline(bytes);
  if (enough) spare_gaps(skyline, step, gaps.first(planned), limit, order, found.spared);
  else take_from_reserve(skyline, step, gaps, planned, limit, found.spared);
  found.peak = {std::max<std::int64_t>(skyline.most(), 0)};
  return found;
}

}  // namespace spillway
