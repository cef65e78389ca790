// Whether steps wait for the host: then it is the host's time that a plan has to spare, and a copy that the card would hide
// costs the step what the host does for it.
//
//   a step takes  max(what the card takes,  the host's own time  +  its effort for copies and reruns)
//
// The host's own time is what settled steps take longer than planned, where the card was seen to wait for it. Pure.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace spillway {

class HostPace {
 public:
  // Settled steps take so long by a plan that promised this with the host's time as below; `waits`: the card waited for the host
  // in them. True: the host's time is another from now on. A host whose pace keeps changing is not followed for ever.
  [[nodiscard]] bool observe(Nanos took, bool waits, const Prediction& promised);
  // The host's own time, to plan with; zero: it runs ahead.
  [[nodiscard]] Nanos host_step() const { return host_step_; }

 private:
  static constexpr int kMostFollowed = 4;
  static constexpr std::int64_t kNewsParts = 20;  // of a step's time: less is noise, or the card's
  int followed_ = 0;
  Nanos host_step_;
};

}  // namespace spillway
