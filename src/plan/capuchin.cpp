// Capuchin (ASPLOS'20): gaps by how much longer they are than the way out and back; the rest by what they cost.
//
//   free time = (back access - way in) - (evicting access + way out)
//
// Those with free time leave by a move, the freest first, until the peak is down to the budget. Then each further gap takes
// the cheaper of the two: a move, at what it lacks in free time, or a rebuild, by bytes saved per time. The way back starts
// one way in before it is needed, never inside the stretch of ops that lack memory. In the paper who is late begins 5 % of its way in
// earlier in the next iteration; here the engine does that for every plan, by how late it was.
#include <algorithm>

#include "plan/draft.h"
#include "plan/papers.h"

namespace spillway {

namespace {

class Capuchin {
 public:
  explicit Capuchin(const PlanRequest& request) : draft_(request) {
    const Outcome& plain = draft_.outcome();
    for (OpPlace op = 0; op < plain.during.size(); ++op) {
      if (plain.during[op] <= request.budget) continue;
      first_ = std::min(first_, op);
      last_ = op;
    }
  }

  Plan plan() {
    if (draft_.fits()) return draft_.plan();
    std::vector<GapPlace> idle = over_the_peak();
    std::ranges::stable_sort(idle, std::greater{}, [&](GapPlace at) { return free_time(at); });
    for (const GapPlace at : idle) {
      if (draft_.fits()) break;
      if (free_time(at) >= 0_ns && draft_.problem().may_move(at)) move(at);
    }
    std::erase_if(idle, [&](GapPlace at) { return draft_.remedy(at) != Remedy::keep; });
    std::ranges::stable_sort(idle, {}, [&](GapPlace at) { return overhead(at) / bytes(at); });
    for (const GapPlace at : idle) {
      if (draft_.fits()) break;
      take_cheaper(at);
    }
    return draft_.plan();
  }

 private:
  [[nodiscard]] double bytes(GapPlace at) const { return static_cast<double>(draft_.problem().size(at).count); }

  [[nodiscard]] std::vector<GapPlace> over_the_peak() const {
    std::vector<GapPlace> found;
    for (GapPlace at = 0; at < draft_.gap_count(); ++at) {
      const bool inside = draft_.gap(at).begin <= last_ && draft_.gap(at).end > first_;
      if (inside && draft_.gap(at).end < draft_.step().op_count()) found.push_back(at);  // one iteration is all it looks at
    }
    return found;
  }

  [[nodiscard]] Nanos free_time(GapPlace at) const {
    const Gap& gap = draft_.gap(at);
    return (draft_.start_of(gap.end) - draft_.way_in(at)) - (draft_.start_of(gap.begin) + draft_.way_out(at));
  }

  [[nodiscard]] double move_overhead(GapPlace at) const { return static_cast<double>(std::max(-free_time(at), 0_ns).count); }
  [[nodiscard]] double overhead(GapPlace at) const {
    const double rebuild = static_cast<double>(draft_.problem().rebuild_time(at).count);
    return draft_.problem().may_drop(at) ? std::min(rebuild, move_overhead(at)) : move_overhead(at);
  }

  void move(GapPlace at) {
    const OpPlace trigger = draft_.last_op_before(draft_.start_of(draft_.gap(at).end) - draft_.way_in(at), at);
    draft_.move(at, trigger > last_ ? trigger : std::min(last_ + 1, draft_.gap(at).end));
    draft_.judge();
  }

  void take_cheaper(GapPlace at) {
    const bool may_drop = draft_.problem().may_drop(at);
    if (may_drop && static_cast<double>(draft_.problem().rebuild_time(at).count) <= move_overhead(at)) {
      draft_.drop(at);
      draft_.judge();
    } else if (draft_.problem().may_move(at)) {
      move(at);
    }
  }

  Draft draft_;
  OpPlace first_ = kNoPlace, last_ = 0;  // of the ops that lack memory
};

}  // namespace

Plan plan_capuchin(const PlanRequest& request, const Plan&) { return Capuchin(request).plan(); }

}  // namespace spillway
