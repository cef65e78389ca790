// TENSILE (TKDE'22): at the peak of the moment, the largest storage that finds a slot on the link for both its ways leaves;
// when none does, the one that saves most bytes per time of its maker is dropped. Until the budget is met or nobody helps.
//
// The link is one timeline for both directions, as in the paper; slots of a way out are taken as early, of a way back as
// late as they are free. Storages that outlive the step leave behind their last update and come back in the next step.
// Mended against its release: a returning storage counts from the start of its copy, a leaving one until its end (the
// timeline sees to it), a storage that is not back in time is waited for, and units are types.
#include <algorithm>
#include <optional>
#include <tuple>

#include "plan/draft.h"
#include "plan/papers.h"

namespace spillway {

namespace {

// Taken stretches of one step's time; a stretch that runs past the step's end goes on at its beginning.
class Slots {
 public:
  explicit Slots(Nanos step) : step_(step) {}

  // The begin of the earliest free stretch inside [from, until).
  [[nodiscard]] std::optional<Nanos> find_early(Nanos from, Nanos until, Nanos takes) const {
    Nanos at = from;
    while (at + takes <= until) {
      const auto blocker = find_blocker(at, takes);
      if (!blocker) return at;
      at = *blocker;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Nanos> find_late(Nanos from, Nanos until, Nanos takes) const {
    // Free stretches end where a taken one begins, or at the end of the window.
    std::optional<Nanos> best;
    const auto offer = [&](Nanos end) {
      const Nanos begin = std::min(end, until) - takes;
      if (begin >= from && !find_blocker(begin, takes) && (!best || begin > *best)) best = begin;
    };
    offer(until);
    for (const auto& [begin, end] : taken_) {
      for (const Nanos shift : {0_ns, step_}) offer(begin + shift);
    }
    return best;
  }

  void take(Nanos begin, Nanos takes) { taken_.emplace_back(begin % step_, begin % step_ + takes); }

 private:
  // When the stretch is not free: the end of what is in its way.
  [[nodiscard]] std::optional<Nanos> find_blocker(Nanos begin, Nanos takes) const {
    for (const auto& [from, until] : taken_) {
      for (const Nanos shift : {-step_, 0_ns, step_}) {
        if (begin < until + shift && from + shift < begin + takes) return until + shift;
      }
    }
    return std::nullopt;
  }

  const Nanos step_;
  std::vector<std::pair<Nanos, Nanos>> taken_;
};

class Tensile {
 public:
  explicit Tensile(const PlanRequest& request) : draft_(request), link_(std::max(draft_.step().starts().back(), 1_ns)), tried_(draft_.gap_count()) {}

  Plan plan() {
    while (!draft_.fits() && (try_swap() || try_rebuild())) {
    }
    return draft_.plan();
  }

 private:
  [[nodiscard]] std::vector<GapPlace> idle_at_peak() const {
    std::vector<GapPlace> found;
    for (GapPlace at = 0; at < draft_.gap_count(); ++at) {
      if (draft_.remedy(at) == Remedy::keep && draft_.covers(at, draft_.outcome().sum.peak_op)) found.push_back(at);
    }
    return found;
  }

  bool try_swap() {
    std::vector<GapPlace> idle = idle_at_peak();
    std::ranges::stable_sort(idle, std::greater{}, [&](GapPlace at) { return draft_.problem().size(at); });
    for (const GapPlace at : idle) {
      if (tried_[at] || !draft_.problem().may_move(at)) continue;
      tried_[at] = true;
      if (swap(at)) return true;
    }
    return false;
  }

  // Out before the peak and in after it, or neither.
  bool swap(GapPlace at) {
    const Gap& gap = draft_.gap(at);
    const OpPlace ops = draft_.step().op_count(), peak = draft_.outcome().sum.peak_op;
    const Nanos at_peak = draft_.start_of(peak >= gap.begin ? peak : peak + ops);
    const auto out = link_.find_early(draft_.start_of(gap.begin), at_peak, draft_.way_out(at));
    if (!out) return false;
    const auto in = link_.find_late(std::max(*out + draft_.way_out(at), at_peak), draft_.start_of(gap.end), draft_.way_in(at));
    if (!in) return false;
    link_.take(*out, draft_.way_out(at));
    link_.take(*in, draft_.way_in(at));
    draft_.move(at, draft_.last_op_before(*in, at));
    draft_.judge();
    return true;
  }

  // Sources that are swapped or dropped themselves do not count: the release knows chains of one.
  [[nodiscard]] bool has_its_sources(GapPlace at) const {
    const auto writers = draft_.step().writers_of(draft_.gap(at).storage);
    return std::ranges::none_of(draft_.step().accesses_at(writers.front()), [&](const Access& access) {
      return is_ingredient(access, draft_.gap(at).storage) && is_gone(access.storage, draft_.gap(at).end);
    });
  }
  [[nodiscard]] bool is_gone(StoragePlace storage, OpPlace op) const {
    if (draft_.problem().is_dead(storage, op)) return true;
    for (GapPlace at = 0; at < draft_.gap_count(); ++at) {
      if (draft_.gap(at).storage == storage && draft_.remedy(at) != Remedy::keep && draft_.covers(at, op)) return true;
    }
    return false;
  }

  bool try_rebuild() {
    std::optional<GapPlace> best;
    double most = 0;
    for (const GapPlace at : idle_at_peak()) {
      if (!draft_.problem().may_drop(at) || !has_its_sources(at)) continue;
      const double saving = static_cast<double>(draft_.problem().size(at).count) / static_cast<double>(std::max(draft_.problem().rebuild_time(at), 1_ns).count);
      if (saving > most) std::tie(best, most) = std::pair(at, saving);
    }
    if (!best) return false;
    draft_.drop(*best);
    draft_.judge();
    return true;
  }

  Draft draft_;
  Slots link_;
  std::vector<bool> tried_;
};

}  // namespace

Plan plan_tensile(const PlanRequest& request, const Plan&) { return Tensile(request).plan(); }

}  // namespace spillway
