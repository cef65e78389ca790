// A plan in the form the engine follows: by op what leaves after it and what starts its way back before it.
//
// Storages are named by the part they play in an op (its second input, its first result), since the same part is played by
// another storage in every step. A gap ties a leaving to its return.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/layout.h"
#include "engine/step_recorder.h"
#include "plan/plan.h"

namespace spillway {

enum class Part : std::uint8_t { input, mutated, output };

struct Leaving {
  std::uint32_t gap = 0;
  std::uint16_t nth = 0;  // among the op's storages of that part
  Part part = Part::input;
  Remedy remedy = Remedy::move;
  bool again = false;  // as in PlannedGap
};

// A storage that plays this part stays beyond its death, until this op has run.
struct Holding {
  Leaving who;
  OpPlace through = 0;
};

// The part a storage plays in an op, if any.
[[nodiscard]] std::optional<Leaving> find_part(const Op& op, StorageId id);
[[nodiscard]] std::vector<const Op*> ops_of(const Trace& trace, StepIndex step);

// What the engine follows of a script, by op where nothing else is said: enough to go by it once more (minutes.h).
struct Lines {
  std::vector<std::uint64_t> keys;
  bool any_size = false;                                            // keys are those of ops whatever their arguments' sizes
  std::vector<std::pair<std::uint32_t, StorageId>> staying_away;    // as Script::staying_away
  std::vector<Bytes> needs;
  std::vector<std::vector<Leaving>> leavings;
  std::vector<std::vector<Holding>> holdings;
  std::vector<std::vector<std::uint32_t>> fetches;
  std::vector<OpPlace> ends;                                        // by gap
  Bytes budget;
  std::shared_ptr<const Places> places;
};

class Script {
 public:
  explicit Script(Lines lines);
  // `any_size`: it is for a step foreseen, whose ops are known whatever the sizes of their arguments.
  // `fetches`: by gap, 1 + the op before which its way back begins, as the timeline has it with room for it; 0: when it is
  // needed. None: the plan's own. `reserve`: gaps the plan does without, for steps that need more room than it leaves.
  Script(const RecordedSteps& steps, const Liveness& step, const Plan& plan, Bytes budget,
         std::shared_ptr<const Places> places = nullptr, const std::vector<OpPlace>& fetches = {}, bool any_size = false,
         std::span<const PlannedGap> reserve = {});

  // Why each gap's storage leaves: by gap.
  void explain(std::vector<std::string> reasons) { reasons_ = std::move(reasons); }

  // It is for another run than its steps are of, which numbers storages otherwise.
  void forget_storages() { lines_.staying_away.clear(); }

  // Of a step foreseen: the order in which gaps are spared where less has to leave than was thought. None: the last first.
  void spare_in_order(std::vector<std::uint32_t> gaps) { spared_in_order_ = std::move(gaps); }
  [[nodiscard]] std::span<const std::uint32_t> spared_in_order() const { return spared_in_order_; }

  [[nodiscard]] const Lines& lines() const { return lines_; }
  [[nodiscard]] std::size_t op_count() const { return lines_.keys.size(); }
  [[nodiscard]] std::uint32_t gap_count() const { return static_cast<std::uint32_t>(lines_.ends.size()); }
  [[nodiscard]] bool is_next(std::size_t op, OpKey key) const {
    return op < op_count() && lines_.keys[op] == (lines_.any_size ? key.shape : key.sized);
  }
  // Storages that live on from step to step and leave over its end: the gap, and who.
  [[nodiscard]] const std::vector<std::pair<std::uint32_t, StorageId>>& staying_away() const { return lines_.staying_away; }
  // What the op takes beside its arguments.
  [[nodiscard]] Bytes need(std::size_t op) const { return lines_.needs[op]; }
  // Where the device measured it.
  [[nodiscard]] std::optional<Nanos> device_time(std::size_t op) const { return times_.empty() ? std::nullopt : std::optional(times_[op]); }
  // When each op starts if nothing ever waits, and when the step ends.
  [[nodiscard]] std::span<const Nanos> start_times() const { return start_times_; }
  [[nodiscard]] std::span<const Leaving> leavings(std::size_t op) const { return lines_.leavings[op]; }
  [[nodiscard]] std::span<const Holding> holdings(std::size_t op) const { return lines_.holdings[op]; }
  // Whether something is to be done after the op, if it is one: who leaves, who is held, who no longer is.
  [[nodiscard]] bool acts_after(std::size_t op) const { return op < acts_after_.size() && acts_after_[op]; }
  [[nodiscard]] std::span<const std::uint32_t> fetches(std::size_t op) const { return lines_.fetches[op]; }
  // What was planned for.
  [[nodiscard]] Bytes budget() const { return lines_.budget; }
  // Where its blocks go; null: not known beforehand.
  [[nodiscard]] const std::shared_ptr<const Places>& places() const { return lines_.places; }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const Prediction& predicted() const { return plan_.predicted; }
  // Of a step foreseen: its gaps, whose storages are places of the foreseen step, how many of them are the plan's, the rest being
  // the reserve in its order, and the peak the plan's leave there (reuse.h).
  [[nodiscard]] std::span<const Gap> gaps() const { return gaps_; }
  [[nodiscard]] std::uint32_t planned_gaps() const { return static_cast<std::uint32_t>(plan_.gaps.size()); }
  // By gap: without the reserve. Empty: there is none.
  [[nodiscard]] std::vector<bool> spared_reserve() const;
  [[nodiscard]] Bytes peak_beside_gaps() const { return peak_beside_; }
  // The op that wants the gap's storage back, or before which it dies; from op_count() on: of the next step.
  [[nodiscard]] OpPlace end(std::uint32_t gap) const { return lines_.ends[gap]; }
  // To make, since it was asked for; zero where that is nobody's business.
  void set_took(Nanos took) { took_ = took; }
  [[nodiscard]] Nanos took() const { return took_; }
  // The op before which the gap's way back begins, and could begin at the earliest, in the same step: its storage has left, and
  // nobody who has a place is in the place of it. None: when it is needed.
  [[nodiscard]] std::optional<OpPlace> start(std::uint32_t gap) const { return starts_[gap]; }
  [[nodiscard]] OpPlace earliest_start(std::uint32_t gap) const { return earliest_[gap]; }
  [[nodiscard]] Bytes size(std::uint32_t gap) const { return sizes_[gap]; }
  [[nodiscard]] std::string_view reason(std::uint32_t gap) const { return gap < reasons_.size() ? std::string_view(reasons_[gap]) : ""; }

 private:
  void add_holds(const std::vector<const Op*>& ops, const Liveness& step);
  // False: nobody plays its part.
  bool add_gap(std::uint32_t gap, const PlannedGap& planned, const std::vector<const Op*>& ops, const Liveness& step);
  void add_start(std::uint32_t gap, OpPlace left, OpPlace op);

  void note_acts();

  Lines lines_;
  std::vector<bool> acts_after_;
  std::vector<Nanos> times_;
  std::vector<Gap> gaps_;
  Bytes peak_beside_;
  std::vector<Nanos> start_times_;
  std::vector<std::optional<OpPlace>> starts_;  // by gap
  std::vector<OpPlace> earliest_;
  std::vector<Bytes> sizes_;
  std::vector<std::string> reasons_;
  std::vector<std::uint32_t> spared_in_order_;
  Plan plan_;
  Nanos took_;
};

}  // namespace spillway
