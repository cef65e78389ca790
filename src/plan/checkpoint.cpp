// Sublinear memory (Chen et al., 2016): the forward pass in about sqrt(n) segments; what crosses a border is kept, the rest
// is dropped and rebuilt when the backward comes to its segment.
//
// A rebuild brings the dropped storages it runs through home for good, so a segment is run again once. Unconditional in the
// paper; here nothing is dropped where everything fits.
#include "plan/draft.h"
#include "plan/papers.h"
#include "plan/segments.h"

namespace spillway {

Plan plan_checkpoint(const PlanRequest& request, const Plan&) {
  Draft draft(request);
  if (draft.fits()) return draft.plan();
  const std::vector<std::uint32_t> segment = cut_forward(draft.step());
  for (GapPlace at = 0; at < draft.gap_count(); ++at) {
    if (!draft.is_saved(at) || !draft.problem().may_drop(at)) continue;
    if (!crosses(draft.step(), draft.gap(at).storage, segment)) draft.drop(at);
  }
  draft.judge();
  return draft.plan();
}

}  // namespace spillway
