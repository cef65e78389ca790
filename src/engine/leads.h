// Ways back that were waited for begin earlier in the steps that follow.
//
// A plan starts each as late as lets it arrive in time, by what copies took when it was made. They share one link, one after
// the other: where one has to begin earlier, those right before it on the link have to, too. A script's own start stays good
// whatever comes of that, so an earlier one can only help, or be in the way of others; and so
//
//   what is moved is on trial for a step: if the step waited no less for it, all is as it was before
//
// and nothing is tried again until the step waits much longer than that. Belongs to the engine's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/units.h"
#include "engine/script.h"

namespace spillway {

// A way back of a step.
struct Coming {
  std::uint32_t gap = 0;
  OpPlace start = 0, not_before = 0;  // the op before which it begins, and the earliest it may begin before
  Nanos copy, late;                   // how long it takes, how long it was waited for
};

// By `coming`, which are in the order of their starts: the op before which each begins from now on. `starts`: of the step's ops.
[[nodiscard]] std::vector<OpPlace> plan_starts(std::span<const Coming> coming, std::span<const Nanos> starts);

// A way back begins before this op, and by the script later.
struct Lead {
  OpPlace op = 0;
  std::uint32_t gap = 0;

  friend bool operator==(const Lead&, const Lead&) = default;
};

class Leads {
 public:
  // How late each was in `step`; other steps are not asked for.
  void note(std::uint32_t gap, std::uint64_t step, Nanos late);
  // The step that is looked at, if any, and the one to look at next.
  [[nodiscard]] std::optional<std::uint64_t> looks_at() const { return looks_at_; }
  void look_at(std::uint64_t step);
  // The step that was looked at went by the script from its first op to its last, and nothing more will be noted of it.
  void judge(const Script& script, const Costs& costs);
  // At which bytes came back of late; zero: not known.
  void set_rate(double nanos_per_byte) { rate_ = nanos_per_byte; }
  // A step did not go by the script, or wanted more room than that has: perhaps for somebody who came early.
  void give_up();

  [[nodiscard]] std::span<const Lead> moved() const { return moved_; }
  // What another run found out.
  void take_over(std::vector<Lead> moved) { moved_ = std::move(moved); }

  void begin_step() { next_ = 0; }
  // Those that begin before this op, and by the script later.
  void take_due(std::size_t op, std::vector<std::uint32_t>& due) {
    for (; next_ < moved_.size() && moved_[next_].op <= op; ++next_) due.push_back(moved_[next_].gap);
  }

 private:
  struct Trial {
    std::vector<Lead> before;  // what it took the place of
    Nanos waited;
  };

  [[nodiscard]] std::vector<Coming> list_coming(const Script& script, const Costs& costs, Nanos least) const;
  void end_trial(Nanos waited);

  std::vector<Lead> moved_;   // by op
  std::size_t next_ = 0;      // of those, in this step
  std::vector<Nanos> late_;   // by gap
  std::optional<std::uint64_t> looks_at_;
  std::optional<Trial> trial_;
  Nanos bearable_;            // so long steps wait whatever is tried
  int trials_ = 0;
  double rate_ = 0;
};

}  // namespace spillway
