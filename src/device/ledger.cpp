#include "device/ledger.h"

#include <iterator>
#include <utility>

#include "base/error.h"

namespace spillway {

void Ledger::reserve(Bytes size) {
  SPILLWAY_ENSURE(reserved_ == 0_B, "a tier is reserved once");
  SPILLWAY_ENSURE(size > 0_B && size % granule_ == 0_B, "a reservation is made of whole granules");
  reserved_ = size;
}

void Ledger::check_granules(Range range) const {
  SPILLWAY_ENSURE(range.begin % granule_ == 0_B && range.end % granule_ == 0_B, "a range is made of whole granules");
  SPILLWAY_ENSURE(!range.empty(), "a range is not empty");
  SPILLWAY_ENSURE(Range(0_B, reserved_).contains(range), "a range lies inside the reservation");
}

bool Ledger::touches(Range range) const {
  const auto after = held_.lower_bound(range.end);
  return after != held_.begin() && std::prev(after)->second > range.begin;
}

bool Ledger::holds(Range range) const {
  const auto after = held_.upper_bound(range.begin);
  return after != held_.begin() && std::prev(after)->second >= range.end;
}

bool Ledger::try_commit(Range range) {
  check_granules(range);
  SPILLWAY_ENSURE(!touches(range), "a range is committed once");
  if (limit_ > 0_B && range.length() > limit_ - committed_) return false;
  committed_ += range.length();
  auto at = held_.emplace(range.begin, range.end).first;
  if (const auto next = std::next(at); next != held_.end() && next->first == range.end) {
    at->second = next->second;
    held_.erase(next);
  }
  if (at != held_.begin() && std::prev(at)->second == range.begin) {
    std::prev(at)->second = at->second;
    held_.erase(at);
  }
  return true;
}

void Ledger::check_decommit(Range range) const {
  check_granules(range);
  SPILLWAY_ENSURE(holds(range), "only committed memory is given back");
}

void Ledger::decommit(Range range) {
  check_decommit(range);
  const auto at = std::prev(held_.upper_bound(range.begin));
  const Range whole{at->first, at->second};
  if (range.end < whole.end) held_.emplace(range.end, whole.end);
  if (whole.begin < range.begin) {
    at->second = range.begin;
  } else {
    held_.erase(at);
  }
  committed_ -= range.length();
}

void Ledger::move(std::span<const Range> to, std::span<const Range> from) {
  Ledger changed = *this;
  for (const Range range : from) changed.decommit(range);
  for (const Range range : to) {
    SPILLWAY_ENSURE(!touches(range), "memory moves to where there was none");
    SPILLWAY_ENSURE(changed.committed_ + range.length() <= committed_ && changed.try_commit(range), "no more memory arrives than leaves");
  }
  SPILLWAY_ENSURE(changed.committed_ == committed_, "all memory that leaves arrives");
  *this = std::move(changed);
}

void check_copy(const Ledger& to_tier, Place to, const Ledger& from_tier, Place from, Bytes size) {
  const Range into{to.offset, to.offset + size}, out_of{from.offset, from.offset + size};
  SPILLWAY_ENSURE(size > 0_B, "a copy has a size");
  SPILLWAY_ENSURE(from_tier.holds(out_of), "a copy reads committed memory");
  SPILLWAY_ENSURE(to_tier.holds(into), "a copy writes committed memory");
  SPILLWAY_ENSURE(to.tier != from.tier || !into.overlaps(out_of), "a copy does not overlap itself");
  SPILLWAY_ENSURE(to.tier != Tier::file || to.offset % kFileBlock == 0_B, "a file place begins at a block");
  SPILLWAY_ENSURE(from.tier != Tier::file || from.offset % kFileBlock == 0_B, "a file place begins at a block");
}

}  // namespace spillway
