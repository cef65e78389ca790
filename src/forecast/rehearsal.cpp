#include "forecast/rehearsal.h"

#include <algorithm>

#include "forecast/forecast.h"
#include "liveness/curve.h"

namespace spillway {

namespace {

std::optional<RehearsedStep::Told> tell(const StepKind& kind, const Signature& signature) {
  const auto predicted = kind.predict(signature);
  if (!predicted) return std::nullopt;
  Liveness step = kind.model();
  step.set_figures(predicted->figures);
  return RehearsedStep::Told{.peak = live_curve(step).peak, .margin = predicted->margin, .time = step.starts().back()};
}

}  // namespace

std::vector<RehearsedStep> rehearse(const Trace& trace) {
  Forecast forecast;
  std::vector<RehearsedStep> all;
  std::vector<std::uint64_t> shapes;
  for (const WholeStep& whole : find_whole_steps(trace)) {
    if (whole.ops == 0) continue;
    const Liveness step(trace, whole);
    const std::vector<std::uint64_t> keys = name_keys(trace, step);
    const StepShape shape = shape_of(step, keys);
    RehearsedStep told{.step = whole.step, .ops = whole.ops, .signature = {}, .peak = live_curve(step).peak, .time = step.starts().back(), .told = {}};
    if (const StepKind* kind = forecast.find(shape.key)) {
      told.samples = kind->samples();
      told.told = tell(*kind, kind->signature(step, shape));
    }
    const StepKind& kind = *forecast.observe(step, keys);
    told.signature = kind.signature(step, shape);
    const auto known = std::ranges::find(shapes, shape.key);
    told.kind = static_cast<std::size_t>(known - shapes.begin());
    if (known == shapes.end()) shapes.push_back(shape.key);
    all.push_back(std::move(told));
  }
  return all;
}

}  // namespace spillway
