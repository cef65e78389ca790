#include "device/fake/races.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/error.h"

namespace spillway {
namespace {

std::string describe(Tier tier, Range range) {
  constexpr std::array kNames{"device", "host", "file"};
  return std::string(kNames[static_cast<std::size_t>(tier)]) + " bytes [" + std::to_string(range.begin.count) + ", " +
         std::to_string(range.end.count) + ")";
}

}  // namespace

void Races::open_stream() {
  clocks_.emplace_back();
  ticks_.emplace_back();
}

void Races::join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

bool Races::is_before(Access access, const Clock& clock) {
  return access.number == 0 || (access.stream < clock.size() && clock[access.stream] >= access.number);
}

void Races::enqueue(StreamId on, std::span<const MemoryUse> uses) {
  Clock& clock = clocks_[on.index];
  if (clock.size() <= on.index) clock.resize(on.index + 1);
  join(clock, host_);
  ++clock[on.index];
  for (const MemoryUse& use : uses) touch(use, on.index);
}

void Races::record(Tick tick) { ticks_[tick.stream.index].push_back(clocks_[tick.stream.index]); }

void Races::wait(StreamId waiter, Tick tick) {
  if (tick.value > 0) join(clocks_[waiter.index], ticks_[tick.stream.index][tick.value - 1]);
}

void Races::host_saw(Tick tick) {
  if (tick.value > 0) join(host_, ticks_[tick.stream.index][tick.value - 1]);
}

// Makes `at` a border between segments, if it lies inside one.
void Races::split(Segments& segments, Bytes at) {
  const auto after = segments.lower_bound(at);
  if (after == segments.begin()) return;
  const auto before = std::prev(after);
  if (before->second.end <= at) return;
  segments.emplace_hint(after, at, before->second);
  before->second.end = at;
}

void Races::touch(const MemoryUse& use, std::uint32_t stream) {
  const Range range{use.place.offset, use.place.offset + use.size};
  if (range.empty()) return;
  Segments& segments = tiers_[static_cast<std::size_t>(use.place.tier)];
  const Access access{stream, clocks_[stream][stream]};
  split(segments, range.begin);
  split(segments, range.end);
  Bytes at = range.begin;
  for (auto it = segments.lower_bound(range.begin); at < range.end; ++it) {
    const Bytes next = it == segments.end() ? range.end : std::min(it->first, range.end);
    if (at < next) it = segments.emplace_hint(it, at, Segment{.end = next});  // bytes never touched before
    check(use, it->second, it->first, stream);
    note(it->second, use, access);
    at = it->second.end;
  }
}

void Races::check(const MemoryUse& use, const Segment& segment, Bytes begin, std::uint32_t stream) const {
  const auto refuse = [&](Access other, const char* did) {
    throw InvariantError("race: stream " + std::to_string(stream) + (use.writes ? " writes " : " reads ") +
                         describe(use.place.tier, {begin, segment.end}) + " without an order after stream " +
                         std::to_string(other.stream) + ", which " + did + " them");
  };
  const Clock& clock = clocks_[stream];
  if (!is_before(segment.written, clock)) refuse(segment.written, "writes");
  if (!use.writes) return;
  for (Access access : segment.read)
    if (!is_before(access, clock)) refuse(access, "reads");
}

void Races::note(Segment& segment, const MemoryUse& use, Access access) {
  if (use.writes) {
    segment.written = access;
    segment.read.clear();
    return;
  }
  std::erase_if(segment.read, [&](Access old) { return old.stream == access.stream; });
  segment.read.push_back(access);
}

void Races::forget(Tier tier, Range range) {
  Segments& segments = tiers_[static_cast<std::size_t>(tier)];
  split(segments, range.begin);
  split(segments, range.end);
  const auto first = segments.lower_bound(range.begin), last = segments.lower_bound(range.end);
  for (auto it = first; it != last; ++it) {
    const Segment& segment = it->second;
    const bool known = is_before(segment.written, host_) &&
                       std::ranges::all_of(segment.read, [&](Access read) { return is_before(read, host_); });
    if (!known)
      throw InvariantError("race: " + describe(tier, {it->first, segment.end}) +
                           " are given back, but the host has not seen their last use done");
  }
  segments.erase(first, last);
}

void Races::move(Tier tier, std::span<const Range> to, std::span<const Range> from) {
  Segments& segments = tiers_[static_cast<std::size_t>(tier)];
  auto into = to.begin();
  Bytes at = into->begin;
  for (Range left : from) {
    while (!left.empty()) {
      if (at == into->end) at = (++into)->begin;
      const Bytes length = std::min(left.length(), into->end - at);
      move(segments, at, {left.begin, left.begin + length});
      left.begin += length;
      at += length;
    }
  }
}

void Races::move(Segments& segments, Bytes to, Range from) {
  split(segments, from.begin);
  split(segments, from.end);
  for (auto it = segments.lower_bound(from.begin); it != segments.end() && it->first < from.end; it = segments.lower_bound(from.begin)) {
    auto moved = segments.extract(it);
    moved.key() += to - from.begin;
    moved.mapped().end += to - from.begin;
    segments.insert(std::move(moved));
  }
}

}  // namespace spillway
