#include "plan/link.h"

#include <algorithm>

namespace spillway {

Link::Link(Nanos end, int slots)
    : end_(std::max(end, Nanos{slots})), slots_(slots), inside_(static_cast<std::size_t>((slots + 1) * (slots + 1))) {}

int Link::slot_after(Nanos time) const {
  const std::int64_t scaled = std::clamp<std::int64_t>(time.count, 0, end_.count) * slots_;
  return static_cast<int>((scaled + end_.count - 1) / end_.count);
}

int Link::slot_before(Nanos time) const {
  return static_cast<int>(std::clamp<std::int64_t>(time.count, 0, end_.count) * slots_ / end_.count);
}

bool Link::try_take(Nanos from, Nanos until, Nanos takes) {
  // Windows are shrunk to borders, so that what fits here fits in truth; a copy shorter than a slot keeps one.
  const int begin = slot_after(from), end = std::max(slot_before(until), std::min(begin + 1, slots_));
  if (until - from < takes || begin >= end) return false;
  for (int a = 0; a <= begin; ++a) {
    for (int b = end; b <= slots_; ++b) {
      if (inside_[static_cast<std::size_t>(a * (slots_ + 1) + b)] + takes.count > end_.count / slots_ * (b - a)) return false;
    }
  }
  for (int a = 0; a <= begin; ++a) {
    for (int b = end; b <= slots_; ++b) inside_[static_cast<std::size_t>(a * (slots_ + 1) + b)] += takes.count;
  }
  return true;
}

}  // namespace spillway
