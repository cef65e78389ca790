// Whether a plan is worth following at all. Where its steps take much longer than it promised, some go without it, and whoever is
// faster goes on: a promise rests on times that may have been taken while the device waited for the host, and a plan that lacks
// memory promises nothing.
//
//   by the plan    9 8 8 8 | without  7 7 6 6 6 | without, until a step is recorded anew, which takes longer each time
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "engine/script.h"

namespace spillway {

class Doubt {
 public:
  // Settled steps by a plan take so long; one without it, in which every op was measured, took `recorded`. `host_late`: the host's
  // time was added to the promise, since steps wait for it.
  [[nodiscard]] static bool is_due(Nanos took, const Prediction& promised, Nanos recorded, bool host_late) {
    const bool kept = took.count <= promised.time.count + promised.time.count / kNewsParts;
    const bool sure = kept && promised.over == 0_B && promised.time <= recorded && !host_late;
    return !sure && took.count > recorded.count - recorded.count / kGainParts;
  }

  void begin(std::shared_ptr<const Script> script, Nanos took) {
    script_ = std::move(script);
    took_ = took;
    steps_ = 0;
  }
  [[nodiscard]] bool on() const { return script_ != nullptr; }

  // A step without the plan has ended; `settled_now` as for Stride. Once it is known, whether steps by the plan are shorter.
  template <class Now>
  [[nodiscard]] std::optional<bool> note_step(Now settled_now) {
    const int since = ++steps_ - kSettling;
    if (since == 0) began_ = settled_now();
    if (since < kTimed) return std::nullopt;
    const Nanos without{(settled_now() - began_).count / kTimed};
    return without >= took_;
  }

  // Plans that were slower than none, up to now.
  [[nodiscard]] int decline() { return declined_++; }
  // The script that was doubted; from here on nothing is.
  [[nodiscard]] std::shared_ptr<const Script> take() { return std::exchange(script_, nullptr); }

 private:
  static constexpr std::int64_t kNewsParts = 20, kGainParts = 10;
  static constexpr int kSettling = 2, kTimed = 3;
  std::shared_ptr<const Script> script_;
  Nanos took_, began_;
  int steps_ = 0, declined_ = 0;
};

}  // namespace spillway
