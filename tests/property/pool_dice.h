// Seeded random numbers, the same on every machine, and the sizes the random drivers ask for.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace spillway::shadow {

// SplitMix64 (Steele, Lea, Flood 2014).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, n), n > 0. The bias of the modulus does not matter here.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool percent(std::uint64_t chance) { return below(100) < chance; }
  StreamId stream(std::size_t streams) { return {static_cast<std::uint32_t>(below(streams))}; }

 private:
  std::uint64_t state_;
};

enum class Sizes : std::uint8_t {
  small,        // up to 4 KiB
  large,        // any size up to a share of the limit
  recurring,    // a dozen sizes, as the layers of a model
  adversarial,  // just over and under powers of two
  mixed,        // all of these
};

class SizeMix {
 public:
  SizeMix(Sizes kind, Bytes largest, Dice& dice) : kind_(kind), largest_(largest) {
    for (int i = 0; i < 12; ++i) table_.push_back(dice.between(1, largest.count >> dice.below(6)));
  }

  Bytes draw(Dice& dice) const {
    const Sizes kind = kind_ == Sizes::mixed ? static_cast<Sizes>(dice.below(4)) : kind_;
    switch (kind) {
      case Sizes::small:
        return {dice.between(1, 4096)};
      case Sizes::large:
        return {dice.between(1, largest_.count >> dice.below(4))};
      case Sizes::recurring:
        return {table_[dice.below(table_.size())]};
      default:
        return adversarial(dice);
    }
  }

 private:
  Bytes adversarial(Dice& dice) const {
    std::int64_t power = 512;
    while (power * 2 <= largest_.count && !dice.percent(15)) power *= 2;
    return {power + dice.between(-1, 1)};
  }

  Sizes kind_;
  Bytes largest_;
  std::vector<std::int64_t> table_;
};

}  // namespace spillway::shadow
