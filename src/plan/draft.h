// A plan under construction, for the papers' planners: choices by gap, times of the plain step, and the timeline's verdict. The
// papers know of gaps between two accesses alone.
#pragma once

#include <vector>

#include "plan/timeline.h"

namespace spillway {

class Draft {
 public:
  explicit Draft(const PlanRequest& request);

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const Liveness& step() const { return problem_.step(); }
  [[nodiscard]] GapPlace gap_count() const { return problem_.gap_count(); }
  [[nodiscard]] const Gap& gap(GapPlace at) const { return problem_.gaps()[at]; }
  [[nodiscard]] Remedy remedy(GapPlace at) const { return choices_[at].remedy; }
  void keep(GapPlace at) { choices_[at] = {}; }
  void drop(GapPlace at, bool again = false) { choices_[at] = {Remedy::drop, gap(at).end, again}; }  // again: as in PlannedGap
  // The way back is enqueued before this op of [begin, end].
  void move(GapPlace at, OpPlace fetch_at);

  // By the plain step's times; from op_count() on of the next step.
  [[nodiscard]] Nanos start_of(OpPlace op) const;
  [[nodiscard]] Nanos end_of(OpPlace op) const { return start_of(op + 1); }
  // The last op of the gap, or its end, that starts no later than this.
  [[nodiscard]] OpPlace last_op_before(Nanos time, GapPlace at) const;
  [[nodiscard]] bool covers(GapPlace at, OpPlace op) const;
  [[nodiscard]] Nanos way_out(GapPlace at) const;
  [[nodiscard]] Nanos way_in(GapPlace at) const;
  // Begins in the forward pass and ends in the backward: what checkpointing is about.
  [[nodiscard]] bool is_saved(GapPlace at) const;

  const Outcome& judge() { return outcome_ = timeline_.run(choices_); }
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }
  [[nodiscard]] bool fits() const { return outcome_.sum.over == 0_B; }
  // As it was judged last.
  [[nodiscard]] Plan plan() const;

 private:
  Problem problem_;
  Timeline timeline_;
  std::vector<Choice> choices_;
  Outcome outcome_;
};

}  // namespace spillway
