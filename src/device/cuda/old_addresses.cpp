#include "device/cuda/old_addresses.h"

#include <algorithm>
#include <utility>

#include "device/cuda/driver.h"

namespace spillway {

void OldAddresses::add(std::span<const Range> ranges, std::span<const Tick> until) {
  const std::lock_guard lock(mutex_);
  left_.push_back({{ranges.begin(), ranges.end()}, {until.begin(), until.end()}});
}

void OldAddresses::clear(CardArena& memory, StreamTable& streams, std::optional<Range> wanted) {
  std::vector<Left> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(left_);
  }
  const auto is_wanted = [&](Range range) { return wanted && range.overlaps(*wanted); };
  const auto is_done = [&](Tick tick) { return streams.query(tick); };
  std::vector<Left> stays;
  for (Left& one : left) {
    if (std::ranges::any_of(one.ranges, is_wanted)) {
      for (const Tick tick : one.until) streams.synchronize(tick);
    } else if (!std::ranges::all_of(one.until, is_done)) {
      stays.push_back(std::move(one));
      continue;
    }
    for (const Range range : one.ranges) memory.decommit(range);
  }
  const std::lock_guard lock(mutex_);
  left_.insert(left_.end(), std::make_move_iterator(stays.begin()), std::make_move_iterator(stays.end()));
}

void OldAddresses::clear_all(const CardArena& memory) {
  for (const Left& one : std::exchange(left_, {})) {
    for (const Range range : one.ranges) cuda_driver().cuMemUnmap(memory.address(range.begin), static_cast<std::size_t>(range.length().count));
  }
}

}  // namespace spillway
