// A step as a planner looks at it: its gaps, which of them may be relieved how, and what a rebuild runs through.
#pragma once

#include <span>
#include <vector>

#include "liveness/gaps.h"
#include "liveness/liveness.h"
#include "plan/plan.h"

namespace spillway {

using GapPlace = std::uint32_t;

// Whether rerunning the op of this access for `wanted` reads the storage. What an op writes beside its result (running
// statistics) is left alone by a rerun.
[[nodiscard]] inline bool is_ingredient(const Access& access, StoragePlace wanted) {
  return access.reads && !access.writes && access.storage != wanted;
}

// Which gaps there is a choice for: also those after which nobody wants the storage any more. It may be wanted all the same in a
// step that goes another way, so it has to be somewhere.
enum class Ends : std::uint8_t { all, by_access };

class Problem {
 public:
  explicit Problem(const PlanRequest& request, Ends ends = Ends::all);

  [[nodiscard]] const Liveness& step() const { return step_; }
  [[nodiscard]] const Costs& costs() const { return costs_; }
  [[nodiscard]] Bytes budget() const { return budget_; }
  [[nodiscard]] std::span<const Gap> gaps() const { return gaps_; }
  [[nodiscard]] GapPlace gap_count() const { return static_cast<GapPlace>(gaps_.size()); }
  // kNoPlace: it is not worth a decision here.
  [[nodiscard]] GapPlace find(const Gap& gap) const;
  [[nodiscard]] Bytes size(GapPlace gap) const { return step_.storages()[gaps_[gap].storage].size; }

  // The gaps that begin right after the op.
  [[nodiscard]] std::span<const GapPlace> gaps_after(OpPlace op) const {
    return std::span(after_).subspan(after_begin_[op], after_begin_[op + 1] - after_begin_[op]);
  }
  // Born when the op begins, not made by it; made by it.
  [[nodiscard]] std::span<const StoragePlace> births(OpPlace op) const { return births_[op]; }
  [[nodiscard]] std::span<const StoragePlace> made(OpPlace op) const { return made_[op]; }
  [[nodiscard]] std::span<const StoragePlace> deaths(OpPlace op) const { return deaths_[op]; }  // gone before the op

  // What the op took while it ran, and gave back before its end if it did not make it, in that order.
  struct Taking {
    StoragePlace storage = 0;
    std::uint32_t order = 0;
    bool begins = false;
  };
  [[nodiscard]] std::span<const Taking> takings(OpPlace op) const { return takings_[op]; }

  // Writes to the storage before the op.
  [[nodiscard]] std::uint32_t version_at(StoragePlace storage, OpPlace op) const;
  [[nodiscard]] bool is_dead(StoragePlace storage, OpPlace op) const { return step_.storages()[storage].death <= op; }

  // Somebody wants it at the gap's end; otherwise it dies there, wherever it is.
  [[nodiscard]] bool comes_back(GapPlace gap) const { return gaps_[gap].ends == GapEnd::access; }
  // What compute loses by a move.
  [[nodiscard]] double price_of_move(GapPlace gap) const;
  // Nobody ever writes into it: the copy it left in a step before is still good.
  [[nodiscard]] bool stays_clean(StoragePlace storage) const;
  [[nodiscard]] bool may_move(GapPlace gap) const { return movable_[gap]; }
  [[nodiscard]] bool may_drop(GapPlace gap) const { return chains_[gap].legal; }
  // Reruns of ops that a rebuild at the gap's end takes when everything alive is there; none where nobody wants it.
  [[nodiscard]] Nanos rebuild_time(GapPlace gap) const { return chains_[gap].time; }
  // Ingredients of that rebuild that are dead by then, and so small beside it that their bytes are kept until its end.
  [[nodiscard]] std::span<const StoragePlace> held_for(GapPlace gap) const { return chains_[gap].held; }
  // Whether `wanted` is made again from the other results of its maker when `op` is about to run, as far as lives tell.
  [[nodiscard]] std::span<const StoragePlace> sides(OpPlace maker) const { return made(maker).subspan(made(maker).empty() ? 0 : 1); }
  // An op in place that is run again in one pass with the op that made what it changes.
  [[nodiscard]] bool rides(OpPlace writer) const { return writer < lean_.size() && lean_[writer] > 0_ns && made_[writer].empty(); }
  [[nodiscard]] bool may_be_lean(OpPlace maker, StoragePlace wanted, OpPlace op) const;
  // The op whose arguments `writer` is rerun from in one pass, instead of what that op made, when this is dead by `op` (a cast of
  // a norm, a sum with a dropout); kNoPlace: it is rerun by itself.
  [[nodiscard]] OpPlace straight_from(OpPlace writer, OpPlace op) const;
  [[nodiscard]] Nanos rerun_time(OpPlace writer, bool lean) const;
  [[nodiscard]] Nanos copy_time(Bytes size, double nanos_per_byte) const;

 private:
  struct Chain {
    bool legal = false;
    Nanos time;
    Bytes dead;  // its dead ancestors, all of them at once on the device
    std::vector<StoragePlace> held;
  };
  void index_lives();
  void judge(GapPlace gap);
  [[nodiscard]] Chain find_chain(const Gap& gap) const;
  // Adds the ops that made `storage` at `version`; false when they cannot be run again at `op`.
  bool add_writers(StoragePlace storage, std::uint32_t version, OpPlace op, Bytes small, std::vector<StoragePlace>& seen, Chain& chain) const;
  bool add_ingredient(const Access& access, OpPlace op, Bytes small, std::vector<StoragePlace>& seen, Chain& chain) const;

  const Liveness& step_;
  Costs costs_;
  Bytes budget_;
  std::span<const Nanos> lean_;
  std::vector<Gap> gaps_;
  std::vector<GapPlace> after_;
  std::vector<std::uint32_t> after_begin_;
  std::vector<std::vector<StoragePlace>> births_, made_, deaths_;
  std::vector<std::vector<Taking>> takings_;
  std::vector<bool> movable_;
  std::vector<Chain> chains_;
};

}  // namespace spillway
