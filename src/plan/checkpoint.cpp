// Sublinear memory (Chen et al., 2016): the forward pass in about sqrt(n) segments; what crosses a border is kept, the rest
// is dropped and rebuilt when the backward comes to its segment.
//
// A rebuild brings the dropped storages it runs through home for good, so a segment is run again once. Unconditional in the
// paper; here nothing is dropped where everything fits.
#include <algorithm>
#include <cmath>

#include "plan/draft.h"
#include "plan/papers.h"

namespace spillway {

namespace {

// By op: its segment. Ops that make something count; the rest belong to the one before.
std::vector<std::uint32_t> cut_forward(const Liveness& step) {
  std::uint32_t makers = 0;
  const auto makes = [&](OpPlace op) { return step.ops()[op].phase == Phase::forward && step.ops()[op].made > 0_B; };
  for (OpPlace op = 0; op < step.op_count(); ++op) makers += makes(op) ? 1 : 0;
  const auto segments = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(std::lround(std::sqrt(static_cast<double>(makers)))));
  std::vector<std::uint32_t> segment(step.op_count());
  std::uint32_t seen = 0;
  for (OpPlace op = 0; op < step.op_count(); ++op) {
    segment[op] = std::min(seen * segments / std::max(makers, 1u), segments - 1);
    seen += makes(op) ? 1 : 0;
  }
  return segment;
}

// Whether a later segment's forward reads it.
bool crosses(const Liveness& step, StoragePlace storage, const std::vector<std::uint32_t>& segment) {
  const auto accesses = step.accesses_of(storage);
  const std::uint32_t made = segment[accesses.front().op];
  return std::ranges::any_of(accesses, [&](const Access& access) {
    return step.ops()[access.op].phase == Phase::forward && segment[access.op] != made;
  });
}

}  // namespace

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
