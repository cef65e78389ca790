// SuperNeurons (PPoPP'18): outputs of dear layers are moved while the forward runs and come back one dear layer ahead of
// their backward; the cheap ones between them are dropped and run again, segment by segment.
//
//   once, and everything stays   (speed-centric)    where  sum(lf_1..s) + lb_s <= l_peak = max(l_i)
//   for each backward anew       (memory-centric)   otherwise
//
// As much of it as the budget asks for: nothing, the moves, the drops with every segment run again once, then the choice above, as
// far as the timeline finds that it lowers the peak. Layers are dear by their type in the paper and by their time here: a step
// knows no types, and what convolutions are to a 2017 network, matrix products are to a transformer.
#include <algorithm>
#include <set>

#include "plan/draft.h"
#include "plan/papers.h"

namespace spillway {

namespace {

// The dropped storages whose makers lie between two checkpoints.
using Segment = std::vector<GapPlace>;

class SuperNeurons {
 public:
  explicit SuperNeurons(const PlanRequest& request) : draft_(request) {}

  Plan plan() {
    if (!draft_.fits()) move_dear_ones();
    if (!draft_.fits()) drop_cheap_ones();
    if (!draft_.fits()) drop_again_where_large();
    return draft_.plan();
  }

 private:
  void move_dear_ones() {
    const std::vector<GapPlace> dear = dear_ones();
    for (std::size_t i = 0; i < dear.size(); ++i) draft_.move(dear[i], i == 0 ? draft_.gap(dear[i]).begin : draft_.gap(dear[i - 1]).end);
    draft_.judge();
  }

  void drop_cheap_ones() {
    for (GapPlace at = 0; at < draft_.gap_count(); ++at) {
      if (draft_.remedy(at) == Remedy::keep && draft_.is_saved(at) && draft_.problem().may_drop(at)) draft_.drop(at);
    }
    draft_.judge();
  }

  // Of those that are larger than the paper allows, each that takes no more in the whole step is run again once all the same.
  void drop_again_where_large() {
    std::vector<Segment> large = segments();
    const Bytes largest = largest_layer();
    std::erase_if(large, [&](const Segment& segment) { return at_once(segment) <= largest; });
    for (const Segment& segment : large) drop(segment, /*again=*/true);
    const Bytes least = draft_.judge().sum.over;
    for (const Segment& segment : large) {
      drop(segment, /*again=*/false);
      if (draft_.judge().sum.over > least) drop(segment, /*again=*/true);
    }
    draft_.judge();
  }

  void drop(const Segment& segment, bool again) {
    for (const GapPlace at : segment) draft_.drop(at, again);
  }

  // What is saved for the backward and never run again is a checkpoint, moved or kept.
  [[nodiscard]] std::vector<Segment> segments() const {
    std::vector<std::uint32_t> place(draft_.step().op_count() + 1);  // by op: checkpoints up to it
    for (GapPlace at = 0; at < draft_.gap_count(); ++at) {
      if (draft_.is_saved(at) && draft_.remedy(at) != Remedy::drop && is_made(at)) place[maker(at)] = 1;
    }
    for (std::size_t op = 1; op < place.size(); ++op) place[op] += place[op - 1];
    std::vector<Segment> found(place.back() + 1);
    for (GapPlace at = 0; at < draft_.gap_count(); ++at) {
      if (draft_.remedy(at) == Remedy::drop) found[place[maker(at)]].push_back(at);
    }
    std::erase_if(found, [](const Segment& segment) { return segment.empty(); });
    return found;
  }
  [[nodiscard]] bool is_made(GapPlace at) const { return draft_.step().accesses_of(draft_.gap(at).storage).front().makes; }
  [[nodiscard]] OpPlace maker(GapPlace at) const { return draft_.step().accesses_of(draft_.gap(at).storage).front().op; }

  // Its results, the checkpoint they are made from, and what the last layer's backward needs beside them.
  [[nodiscard]] Bytes at_once(const Segment& segment) const {
    const GapPlace last = std::ranges::max(segment, {}, [&](GapPlace at) { return maker(at); });
    const OpPlace backward = draft_.step().accesses_of(draft_.gap(last).storage).back().op;
    std::set<StoragePlace> there;
    for (const GapPlace at : segment) {
      there.insert(draft_.gap(at).storage);
      for (const Access& access : draft_.step().accesses_at(maker(at))) {
        if (is_ingredient(access, draft_.gap(at).storage) && !draft_.problem().is_dead(access.storage, backward)) there.insert(access.storage);
      }
    }
    return layer_with(std::move(there), backward);
  }

  [[nodiscard]] Bytes largest_layer() const {
    Bytes largest;
    for (OpPlace op = 0; op < draft_.step().op_count(); ++op) {
      const Phase phase = draft_.step().ops()[op].phase;
      if (phase == Phase::forward || phase == Phase::backward) largest = std::max(largest, layer_with({}, op));
    }
    return largest;
  }

  // What the op needs and what else is there. Data alone, as the paper counts: parameters are always there.
  [[nodiscard]] Bytes layer_with(std::set<StoragePlace> there, OpPlace op) const {
    for (const Access& access : draft_.step().accesses_at(op)) {
      if (!access.makes) there.insert(access.storage);
    }
    Bytes sum = std::max(draft_.step().ops()[op].transient, draft_.step().ops()[op].made);
    for (const StoragePlace storage : there) {
      if (!draft_.step().storages()[storage].wraps()) sum += draft_.step().storages()[storage].size;
    }
    return sum;
  }

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

}  // namespace

Plan plan_superneurons(const PlanRequest& request, const Plan&) { return SuperNeurons(request).plan(); }

}  // namespace spillway
