#include "sim/score.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "liveness/walk.h"

namespace spillway {

namespace {

bool contains(const std::vector<StoragePlace>& list, StoragePlace place) { return std::ranges::find(list, place) != list.end(); }

class ScoreReader {
 public:
  ScoreReader(const Trace& trace, const WholeStep& step, const Liveness& liveness) : trace_(trace), step_(step), liveness_(liveness) {
    for (StoragePlace at = 0; at < liveness.storage_count(); ++at) places_.emplace(liveness.storages()[at].id, at);
  }

  Score read() {
    for (std::size_t at = step_.begin; at < step_.end; ++at) std::visit([&](const auto& event) { see(event); }, trace_.events[at]);
    drop_rebuilt();
    score_.tail = std::move(cues_);
    return std::move(score_);
  }

 private:
  template <class E>
  void see(const E&) {}
  void see(const StorageBirth& birth) { cue(birth.storage, /*birth=*/true); }
  void see(const StorageDeath& death) { cue(death.storage, /*birth=*/false); }
  void see(const Recompute&) { rebuilt_ = true; }
  void see(const Op& op) {
    if (op.job != step_.job) return;
    drop_rebuilt();
    ScoreOp& made = score_.ops.emplace_back();
    list_storages(op, made);
    place_cues(made);
    fill(op, made);
  }

  void cue(StorageId id, bool birth) {
    if (const auto found = places_.find(id); found != places_.end()) cues_.push_back({found->second, birth});
  }

  // Born and gone since the last op while something was rebuilt.
  void drop_rebuilt() {
    if (!std::exchange(rebuilt_, false)) return;
    const auto has = [&](StoragePlace storage, bool birth) {
      return std::ranges::any_of(cues_, [&](const Cue& cue) { return cue.storage == storage && cue.birth == birth; });
    };
    std::vector<Cue> kept;
    for (const Cue& cue : cues_) {
      if (!has(cue.storage, true) || !has(cue.storage, false)) kept.push_back(cue);
    }
    cues_ = std::move(kept);
  }

  void list_storages(const Op& op, ScoreOp& made) const {
    const auto add = [&](const std::vector<StorageId>& ids, std::vector<StoragePlace>& to, const std::vector<StoragePlace>& but) {
      for (const StorageId id : ids) {
        const auto found = places_.find(id);
        if (found != places_.end() && !contains(to, found->second) && !contains(but, found->second)) to.push_back(found->second);
      }
    };
    add(op.mutated, made.mutated, {});
    add(op.inputs, made.inputs, made.mutated);
    add(op.outputs, made.outputs, {});
  }

  // From the first birth that is the op's own, everything happens inside it.
  void place_cues(ScoreOp& made) {
    bool inside = false;
    for (const Cue& cue : cues_) {
      const bool argument = contains(made.inputs, cue.storage) || contains(made.mutated, cue.storage);
      inside = inside || (cue.birth && !argument);
      (inside && !argument ? made.inside : made.before).push_back(cue);
    }
    cues_.clear();
  }

  void fill(const Op& op, ScoreOp& made) const {
    made.name = trace_.name(op.name);
    made.why_not = trace_.name(op.why_not);
    made.phase = op.phase;
    made.duration = op.duration;
    made.lean = op.lean;
    made.again = op.again;
    made.replayable = op.replayable;
    made.workspace = std::max(op.transient - most_inside(made), 0_B);
    const bool makes = std::ranges::any_of(made.inside, [&](const Cue& cue) { return cue.birth && contains(made.outputs, cue.storage); });
    made.view = only_views(op);
    made.in_place = made.mutated.size() == 1 && !makes;
    made.shape = made.key = op.name.index + 1;
    for (const auto* list : {&made.inputs, &made.mutated}) {
      for (const StoragePlace place : *list) {
        made.key = (made.key ^ static_cast<std::uint64_t>(liveness_.storages()[place].size.count)) * 0x9E3779B97F4A7C15ull;
      }
    }
  }

  // What is born inside is there at once: its peak is the op's, unless the trace knows of more.
  [[nodiscard]] Bytes most_inside(const ScoreOp& made) const {
    Bytes now, most;
    for (const Cue& cue : made.inside) {
      now += liveness_.storages()[cue.storage].size * (cue.birth ? 1 : -1);
      most = std::max(most, now);
    }
    return most;
  }

  const Trace& trace_;
  const WholeStep& step_;
  const Liveness& liveness_;
  std::unordered_map<StorageId, StoragePlace> places_;
  std::vector<Cue> cues_;  // since the last op
  bool rebuilt_ = false;
  Score score_;
};

}  // namespace

Score read_score(const Trace& trace, const WholeStep& step, const Liveness& liveness) {
  return ScoreReader(trace, step, liveness).read();
}

}  // namespace spillway
