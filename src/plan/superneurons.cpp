// SuperNeurons (PPoPP'18): outputs of dear layers are moved while the forward runs and come back one dear layer ahead of
// their backward; the cheap ones between them are dropped and run again.
//
// As much of it as the budget asks for: nothing, the moves, then the drops too. Where a segment is run again, the engine
// keeps what came home (speed-centric); the paper's memory-centric way, where every backward runs its chain anew, exists
// here as numbers only (count_recomputation). Layers are dear by their type in the paper and by their time here: a step knows
// no types, and what convolutions are to a 2017 network, matrix products are to a transformer.
#include <algorithm>

#include "plan/draft.h"
#include "plan/papers.h"

namespace spillway {

namespace {

class SuperNeurons {
 public:
  explicit SuperNeurons(const PlanRequest& request) : draft_(request) {}

  Plan plan() {
    if (draft_.fits()) return draft_.plan();
    const std::vector<GapPlace> dear = dear_ones();
    for (std::size_t i = 0; i < dear.size(); ++i) draft_.move(dear[i], i == 0 ? draft_.gap(dear[i]).begin : draft_.gap(dear[i - 1]).end);
    draft_.judge();
    if (draft_.fits()) return draft_.plan();
    for (GapPlace at = 0; at < draft_.gap_count(); ++at) {
      if (draft_.remedy(at) == Remedy::keep && draft_.is_saved(at) && draft_.problem().may_drop(at)) draft_.drop(at);
    }
    draft_.judge();
    return draft_.plan();
  }

 private:
  // In the order in which the backward comes to them.
  [[nodiscard]] std::vector<GapPlace> dear_ones() const {
    std::vector<GapPlace> dear;
    for (GapPlace at = 0; at < draft_.gap_count(); ++at) {
      if (draft_.is_saved(at) && draft_.problem().may_move(at) && is_dear(draft_.gap(at).storage)) dear.push_back(at);
    }
    std::ranges::stable_sort(dear, {}, [&](GapPlace at) { return draft_.gap(at).end; });
    return dear;
  }

  // Its time is among the longest fifth of the forward ops that make something.
  [[nodiscard]] bool is_dear(StoragePlace storage) const {
    const auto writers = draft_.step().writers_of(storage);
    return !writers.empty() && draft_.step().ops()[writers.front()].duration >= threshold_;
  }

  [[nodiscard]] Nanos find_threshold() const {
    std::vector<Nanos> times;
    for (const LiveOp& op : draft_.step().ops()) {
      if (op.phase == Phase::forward && op.made > 0_B) times.push_back(op.duration);
    }
    if (times.empty()) return {};
    const auto nth = times.begin() + static_cast<std::ptrdiff_t>(times.size() * 4 / 5);
    std::ranges::nth_element(times, nth);
    return *nth;
  }

  Draft draft_;
  Nanos threshold_ = find_threshold();
};

struct Segment {
  std::int64_t layers = 0;
  Bytes forward, gradients, before;  // gradients: of its last layer; before: of the checkpoint it starts from
};

}  // namespace

// Speed: each layer once, all results of the segment there at once. Memory: layer i of a segment is run again for every
// backward from i on. Cost-aware: speed where the segment is no larger than the largest layer, memory where it is.
RecomputationCost count_recomputation(std::span<const PaperLayer> layers, Recomputation how) {
  Bytes largest;
  for (const PaperLayer& layer : layers) largest = std::max(largest, layer.backward);
  RecomputationCost cost{.extra_runs = 0, .peak = largest};
  Segment open;
  const auto close = [&] {
    const Bytes whole = open.before + open.forward + open.gradients;
    const bool once = how == Recomputation::speed || (how == Recomputation::cost_aware && whole <= largest);
    cost.extra_runs += once ? open.layers : open.layers * (open.layers + 1) / 2;
    if (once && open.layers > 0) cost.peak = std::max(cost.peak, whole);
  };
  for (const PaperLayer& layer : layers) {
    if (layer.checkpoint) {
      close();
      open = {.layers = 0, .forward = {}, .gradients = {}, .before = layer.forward};
      continue;
    }
    ++open.layers;
    open.forward += layer.forward;
    open.gradients = layer.gradients;
  }
  close();
  return cost;
}

Plan plan_superneurons(const PlanRequest& request, const Plan&) { return SuperNeurons(request).plan(); }

}  // namespace spillway
