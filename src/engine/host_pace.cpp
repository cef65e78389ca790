#include "engine/host_pace.h"

#include <algorithm>

namespace spillway {

bool HostPace::observe(Nanos took, const Prediction& promised) {
  const Nanos news{promised.time.count / kNewsParts};
  const bool late = took > promised.time + news;
  const bool early = took + news < promised.time && host_step_ > 0_ns;  // it was late once
  if ((!late && !early) || followed_ >= kMostFollowed) return false;
  ++followed_;
  host_step_ = std::max(took - promised.effort, 0_ns);
  return true;
}

}  // namespace spillway
