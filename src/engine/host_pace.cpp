#include "engine/host_pace.h"

#include <algorithm>

namespace spillway {

bool HostPace::observe(Nanos took, bool waits, const Prediction& promised) {
  const Nanos news{promised.time.count / kNewsParts};
  const bool late = waits && took > promised.time + news;
  const bool early = host_step_ > 0_ns && (!waits || took + news < promised.time);  // it was late once
  if ((!late && !early) || followed_ >= kMostFollowed) return false;
  ++followed_;
  host_step_ = waits ? std::max(took - promised.effort, 0_ns) : 0_ns;
  return true;
}

}  // namespace spillway
