// Where the run is on its script: which op comes next, who left by it, whose way back is due. Belongs to the engine's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/drift.h"
#include "engine/leads.h"
#include "engine/record.h"
#include "engine/script.h"

namespace spillway {

// How long a step by one script takes, once the run has settled in it: by the shorter of two stretches, since something else
// may have happened in the other. While a plan is being made nothing is timed: two busy threads may share a core.
class Stride {
 public:
  // `as_planned`: from its first op to its last; `quiet`: nobody plans; `host_late`: the device came near its end before the host
  // did. `settled_now`: the time with nothing left to do for the
  // device, which has to be waited for; it is asked for at the borders of the stretches only, for the host runs ahead by more and
  // more steps.
  template <class Now>
  void note_step(bool as_planned, bool quiet, bool host_late, Now settled_now) {
    if (!time_) late_ = timed_ == 0 ? 0 : late_ + (host_late ? 1 : 0);
    steps_ = as_planned ? steps_ + 1 : 0;
    tried_ += quiet ? 1 : 0;
    timed_ = quiet && settled() ? timed_ + 1 : 0;
    const int since = timed_ - 1;
    if (time_ || since < 0 || since % kStretch != 0) return;
    const Nanos now = settled_now();
    const Nanos took{(now - std::exchange(began_, now)).count / kStretch};
    if (since > 0) shortest_ = since == kStretch ? took : std::min(took, shortest_);
    if (since == kStretches * kStretch) time_ = shortest_;
  }
  // In most of the steps timed. A step that takes longer than planned with the host ahead has another cause.
  [[nodiscard]] bool waits_for_host() const { return 2 * late_ > kStretches * kStretch; }
  [[nodiscard]] bool settled() const { return steps_ >= kSettling; }
  [[nodiscard]] std::optional<Nanos> time() const { return time_; }
  [[nodiscard]] int tried() const { return tried_; }  // steps, settled or not

 private:
  static constexpr int kSettling = 3, kStretch = 3, kStretches = 2;
  int steps_ = 0;  // in a row, as planned
  int tried_ = 0, timed_ = 0, late_ = 0;
  Nanos began_, shortest_;
  std::optional<Nanos> time_;
};

struct Course {
  // A record outlives its storage, and may have been home since: the numbers tell.
  struct Gone {
    Record* record = nullptr;
    StorageId id;
    std::uint32_t departure = 0;

    [[nodiscard]] bool is_still_away() const {
      return record != nullptr && record->id == id && record->departures == departure && record->residence == Residence::away;
    }
  };

  // A script that was followed before the one at hand, and how long its steps took.
  struct Proven {
    std::shared_ptr<const Script> script;
    Nanos time;
  };

  std::shared_ptr<const Script> script;  // null: nothing to follow
  Prediction promise;                    // the script's, by what is known now
  std::optional<Proven> before;          // as long as the one at hand has to prove itself
  Bytes limit;                           // for whoever comes back ahead of need: the script's budget, and who is there beside it
  bool on = false;                       // this step has gone by the script so far
  std::size_t next = 0;
  std::optional<Tick> near_end;          // of the compute stream, once the step is that far
  std::vector<Gone> gone;                // by gap
  std::vector<bool> spared;              // by gap: it is not needed here; empty: all are
  std::vector<std::uint32_t> due;        // gaps whose way back waits for room
  Leads leads;                           // whose way back begins earlier than the script says
  std::vector<std::uint32_t> ahead;      // the same of those: after all that are due
  std::vector<std::pair<Record*, OpPlace>> outliving;  // kept beyond their death, through which op
  int steps = 0;                         // begun by this script
  int missed = 0;                        // steps in a row that went another way
  int surprises = 0;                     // in this step: room that had to be made though the plan had enough
  Stride stride;
  Drift drift;                           // of the run: another script goes on with it
  bool judged = false;                   // its steps took another time than planned, which was followed up
  bool drifted = false;                  // they took another time than before, and the card is to be measured again
  bool doubted = false;                  // steps without it were longer
  bool outdated = false;                 // planned for a world that is no more: any other script is better

  void set(std::shared_ptr<const Script> made, std::vector<bool> without = {}) {
    script = std::move(made);
    promise = script ? script->predicted() : Prediction{};
    limit = script ? script->budget() : 0_B;
    spared = std::move(without);
    gone.assign(script ? script->gap_count() : 0, {});
    before.reset();
    missed = steps = 0;
    on = false;  // until the next step begins
    next = 0;
    due.clear();
    ahead.clear();
    stride = {};
    leads = {};
    drift.begin_script();
    judged = drifted = doubted = outdated = false;
  }
  // Whether another script has to promise more to be followed instead. One without places is changed for one that has some.
  [[nodiscard]] bool is_good(bool offered_places) const {
    return script && !outdated && missed == 0 && surprises == 0 && (script->places() || !offered_places);
  }
  [[nodiscard]] bool is_spared(std::uint32_t gap) const { return gap < spared.size() && spared[gap]; }
  void begin_step() {
    on = script != nullptr;
    steps += on ? 1 : 0;
    next = 0;
    near_end.reset();
    surprises = 0;
    due.clear();
    ahead.clear();
    leads.begin_step();
  }
  // Of the script at hand, over which the storage left the last time; kNoPlace: none.
  [[nodiscard]] std::uint32_t gap_of(const Record& record) const {
    const bool known = on && record.gap && *record.gap < gone.size() && gone[*record.gap].record == &record && gone[*record.gap].id == record.id;
    return known && gone[*record.gap].departure == record.departures ? *record.gap : kNoPlace;
  }
};

}  // namespace spillway
