#include "plan/timeline.h"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway {

Timeline::Timeline(const Problem& problem) : problem_(problem), step_(problem.step()) {
  state_.resize(step_.storage_count());
  ready_.resize(step_.storage_count());
  copied_.resize(step_.storage_count());
  gap_of_.resize(step_.storage_count());
  fetches_.resize(step_.op_count());
  held_until_.resize(step_.storage_count());
}

std::vector<Choice> choices_of(const Problem& problem, const Plan& plan) {
  std::vector<Choice> choices(problem.gap_count());
  for (const PlannedGap& planned : plan.gaps) {
    if (const GapPlace gap = problem.find(planned.gap); gap != kNoPlace) choices[gap] = {planned.remedy, planned.fetch_at, planned.again};
  }
  return choices;
}

std::vector<Hold> holds_of(const Problem& problem, std::span<const Choice> choices) {
  std::vector<Hold> holds;
  for (GapPlace gap = 0; gap < problem.gap_count(); ++gap) {
    if (choices[gap].remedy != Remedy::drop) continue;
    for (const StoragePlace storage : problem.held_for(gap)) holds.push_back({storage, problem.gaps()[gap].end + 1});
  }
  std::ranges::sort(holds, [](const Hold& one, const Hold& other) { return std::pair(one.storage, other.until) < std::pair(other.storage, one.until); });
  const auto same = std::ranges::unique(holds, {}, &Hold::storage);  // the longest of each is the first
  holds.erase(same.begin(), same.end());
  std::ranges::stable_sort(holds, {}, &Hold::until);
  return holds;
}

Prediction predict(const PlanRequest& request, const Plan& plan) {
  const Problem problem(request);
  return Timeline(problem).run(choices_of(problem, plan)).sum;
}

// What moves over the step's end left by a step like this one. How long that took is known after a first look at it; where it makes
// a difference to those on the link when the step begins, another follows.
Outcome& Timeline::run(std::span<const Choice> choices, BlockLog* log) {
  log_ = log;
  before_ = step_.starts();
  const Nanos link = run_once(choices);
  if (!wrapping_.empty() && link != std::max(out_free_ - clock_, 0_ns)) {
    const std::vector<Nanos> starts = outcome_.starts;
    before_ = starts;
    if (log_ != nullptr) *log_ = BlockLog(step_.storage_count());
    (void)run_once(choices);
  }
  sum_up();
  return outcome_;
}

// Until when the way out is busy for the step before.
Nanos Timeline::run_once(std::span<const Choice> choices) {
  begin(choices);
  const Nanos link = out_free_;
  for (at_ = 0; at_ < step_.op_count(); ++at_) run_op(at_);
  end_lives(step_.op_count());
  end_waiting();
  outcome_.starts[step_.op_count()] = clock_;
  return link;
}

void Timeline::sum_up() {
  const Nanos host = problem_.costs().host_step;
  outcome_.sum.time = host > 0_ns ? std::max(clock_, host + outcome_.sum.effort) : clock_;
  outcome_.sum.plain_time = std::max(step_.starts()[step_.op_count()], host);
  for (OpPlace op = 0; op < step_.op_count(); ++op) {
    if (outcome_.during[op] <= outcome_.sum.peak) continue;
    outcome_.sum.peak = outcome_.during[op];
    outcome_.sum.peak_op = op;
  }
  outcome_.sum.over = std::max(outcome_.sum.peak - problem_.budget(), 0_B);
}

void Timeline::begin(std::span<const Choice> choices) {
  choices_ = choices;
  begin_holds();
  outcome_.sum = {};
  outcome_.during.assign(step_.op_count(), 0_B);
  outcome_.starts.assign(step_.op_count() + 1, 0_ns);
  waiting_.clear();
  wrapping_.clear();
  leaving_.clear();
  for (auto& due : fetches_) due.clear();
  live_ = leaving_bytes_ = 0_B;
  clock_ = in_free_ = 0_ns;
  out_free_ = -before_.back();  // a step ago
  for (StoragePlace at = 0; at < step_.storage_count(); ++at) {
    const LiveStorage& storage = step_.storages()[at];
    state_[at] = State::absent;
    ready_[at] = 0_ns;
    copied_[at] = problem_.stays_clean(at) ? 0 : kNoPlace;
    if (storage.before && storage.birth < storage.death) appear(at, 0, /*first=*/true);
  }
  const OpPlace ops = step_.op_count();
  outcome_.needed_at.resize(problem_.gap_count());
  for (GapPlace gap = 0; gap < problem_.gap_count(); ++gap) {
    outcome_.needed_at[gap] = problem_.gaps()[gap].end;
    if (choices[gap].remedy != Remedy::move) continue;
    if (problem_.comes_back(gap)) fetches_[choices[gap].fetch_at % ops].push_back(gap);
    if (problem_.gaps()[gap].end >= ops && choices[gap].fetch_at >= ops) wrapping_.push_back(gap);
  }
  const auto order = [&](GapPlace gap) { return order_of_return(problem_.gaps()[gap], choices[gap].fetch_at, ops); };
  for (auto& due : fetches_) std::ranges::sort(due, {}, order);
  std::ranges::stable_sort(wrapping_, {}, [&](GapPlace gap) { return problem_.gaps()[gap].begin; });
  begin_wrapped();
}

// The step before was like this one: what it moved away over its end left after the same op, so much before this step began.
void Timeline::begin_wrapped() {
  for (const GapPlace gap : wrapping_) {
    const bool dies = !problem_.comes_back(gap) && problem_.gaps()[gap].end == step_.op_count();  // with the step it was made in
    const StoragePlace storage = dies ? problem_.gaps()[gap].storage : step_.storages()[problem_.gaps()[gap].storage].next;
    if (dies) appear(storage, 0, /*first=*/true);
    state_[storage] = dies ? State::absent : State::away;
    gap_of_[storage] = gap;
    if (std::exchange(copied_[storage], 0) == 0) {
      live_ -= size(storage);
      close(storage);
      continue;
    }
    const Nanos left = before_[problem_.gaps()[gap].begin] - before_.back();
    out_free_ = std::max(out_free_, left) + problem_.copy_time(size(storage), problem_.costs().out_nanos_per_byte);
    push_leaving(storage);
    ready_[storage] = out_free_;
  }
  out_free_ = std::max(out_free_, 0_ns);
}

void Timeline::begin_holds() {
  for (const Hold& hold : holds_) held_until_[hold.storage] = 0;
  holds_ = holds_of(problem_, choices_);
  for (const Hold& hold : holds_) held_until_[hold.storage] = hold.until;
  next_hold_ = 0;
}

// Of those whom nobody sees from this op on.
void Timeline::end_lives(OpPlace op) {
  for (const StoragePlace storage : problem_.deaths(op)) {
    if (held_until_[storage] <= op) vanish(storage);
  }
  for (; next_hold_ < holds_.size() && holds_[next_hold_].until <= op; ++next_hold_) vanish(holds_[next_hold_].storage);
}

void Timeline::appear(StoragePlace storage, std::uint32_t during, bool first) {
  come(storage);
  if (log_ != nullptr) log_->open(storage, size(storage), during, first);
}

void Timeline::come(StoragePlace storage) {
  state_[storage] = State::here;
  live_ += size(storage);
}

// Its bytes are there until its way out, the latest on the link, has ended.
void Timeline::push_leaving(StoragePlace storage) {
  leaving_.push_back({size(storage), out_free_, log_ == nullptr ? BlockLog::kNone : log_->latest(storage)});
  leaving_bytes_ += size(storage);
}

// The blocks the op takes while it runs, or runs again for `wanted`, which it then makes or only writes.
void Timeline::log_takings(OpPlace op, StoragePlace wanted, bool makes) {
  if (log_ == nullptr) return;
  std::vector<std::pair<StoragePlace, std::uint32_t>> for_now;
  for (const Problem::Taking& taking : problem_.takings(op)) {
    const StoragePlace storage = taking.storage;
    const bool lasts = step_.storages()[storage].birth < step_.storages()[storage].death;
    const bool stays = wanted == kNoPlace ? lasts : storage == wanted ? makes : lasts && comes_home(storage);
    if (!taking.begins) {
      for (const auto& [other, block] : for_now) {
        if (other == storage) log_->end(block);
      }
    } else if (stays) {
      open(storage);
    } else {
      for_now.emplace_back(storage, log_->open_workspace(size(storage), at_ + 1));
    }
  }
  for (const auto& [storage, block] : for_now) log_->end(block);
}

// Made again beside what was wanted, and nobody wrote into it since.
bool Timeline::comes_home(StoragePlace sibling) const {
  return state_[sibling] == State::dropped && problem_.version_at(sibling, at_) == 1;
}

void Timeline::vanish(StoragePlace storage) {
  if (state_[storage] == State::here || state_[storage] == State::coming) {
    live_ -= size(storage);
    close(storage);
  }
  state_[storage] = State::absent;
}

void Timeline::wait_until(Nanos time) {
  if (time <= clock_) return;
  outcome_.sum.stall += time - clock_;
  clock_ = time;
}

void Timeline::run_op(OpPlace op) {
  outcome_.starts[op] = clock_;
  end_lives(op);
  for (const StoragePlace storage : problem_.births(op)) appear(storage, op);
  for (const GapPlace gap : fetches_[op]) waiting_.push_back(gap);
  start_fetches();
  for (const Access& access : step_.accesses_at(op)) {
    if (!access.makes) bring_home(access.storage);
  }
  for (const Access& access : step_.accesses_at(op)) await(access.storage);
  const LiveOp& ran = step_.ops()[op];
  hold(op, std::max(ran.transient, ran.made));
  clock_ += ran.duration;
  log_takings(op, kNoPlace, /*makes=*/true);
  for (const StoragePlace storage : problem_.made(op)) come(storage);
  for (const GapPlace gap : problem_.gaps_after(op)) leave(gap);
}

// In their order, as long as there is room beside the op that runs now.
void Timeline::start_fetches() {
  while (!waiting_.empty()) {
    const GapPlace gap = waiting_.front();
    const Gap& over = problem_.gaps()[gap];
    const StoragePlace storage = over.end < step_.op_count() || at_ >= over.begin ? over.storage : step_.storages()[over.storage].next;
    if (state_[storage] == State::away && gap_of_[storage] == gap) {  // not home and away again meanwhile
      const LiveOp& now = step_.ops()[at_];
      const Bytes need = size(storage) + std::max(now.transient, now.made);
      if (live_ - leaving_bytes_ + need > problem_.budget()) return;
      start_fetch(gap, take_over(size(storage)));
    }
    waiting_.pop_front();
  }
}

// Room of those who are leaving is given to a way in at once, which starts behind their ways out; so many bytes more. When
// that is.
Nanos Timeline::take_over(Bytes bytes) {
  Nanos free = 0_ns;
  while (live_ + bytes > problem_.budget()) free = forget_leaving();
  return free;
}

// Its place is another's from its end on.
Nanos Timeline::forget_leaving() {
  const Leaving first = leaving_.front();
  leaving_.pop_front();
  live_ -= first.size;
  leaving_bytes_ -= first.size;
  if (log_ != nullptr) log_->end(first.block);
  return first.end;
}

// Whose way back was to begin before the step's end and found no room so far is waited for, to be home when the next one begins.
void Timeline::end_waiting() {
  at_ = step_.op_count() - 1;
  for (const GapPlace gap : std::exchange(waiting_, {})) {
    const StoragePlace storage = problem_.gaps()[gap].storage;
    if (problem_.gaps()[gap].end < step_.op_count() || state_[storage] != State::away || gap_of_[storage] != gap) continue;
    outcome_.during[at_] = std::max(outcome_.during[at_], live_ - leaving_bytes_ + size(storage));
    start_fetch(gap, leaving_.empty() ? 0_ns : out_free_);
    wait_until(ready_[storage]);
  }
  wait_until(late_for_next());
}

// When the next step would have to begin for nobody to wait in it for those that are on their way home now.
Nanos Timeline::late_for_next() const {
  const OpPlace ops = step_.op_count();
  Nanos late = clock_;
  for (GapPlace gap = 0; gap < problem_.gap_count() && in_free_ > clock_; ++gap) {
    const Gap& over = problem_.gaps()[gap];
    const bool comes = over.end >= ops && state_[over.storage] == State::coming && gap_of_[over.storage] == gap;
    if (comes) late = std::max(late, ready_[over.storage] - outcome_.starts[over.end - ops]);
  }
  return late;
}

void Timeline::start_fetch(GapPlace gap, Nanos room) {
  const Gap& over = problem_.gaps()[gap];
  const bool wrapped = over.end >= step_.op_count() && at_ < over.begin;
  const StoragePlace storage = wrapped ? step_.storages()[over.storage].next : over.storage;
  const Costs& costs = problem_.costs();
  in_free_ = std::max({in_free_, clock_, ready_[storage], room}) + problem_.copy_time(size(storage), costs.in_nanos_per_byte);
  state_[storage] = State::coming;
  ready_[storage] = in_free_;
  live_ += size(storage);
  open(storage);
  if (log_ != nullptr) log_->tag(storage, gap);
  clock_ += Nanos{static_cast<std::int64_t>(static_cast<double>(size(storage).count) * costs.in_price)};
  outcome_.sum.effort += costs.host_per_copy;
}

void Timeline::note_need(StoragePlace storage) {
  const GapPlace gap = gap_of_[storage];
  const Gap& over = problem_.gaps()[gap];
  outcome_.needed_at[gap] = over.end >= step_.op_count() && at_ < over.begin ? at_ + step_.op_count() : at_;
}

// It is rebuilt for another's rebuild, and leaves again after that.
bool Timeline::is_guest(StoragePlace storage) const {
  if (rebuilding_ == 0 || state_[storage] != State::dropped || !choices_[gap_of_[storage]].again) return false;
  return std::ranges::none_of(step_.accesses_at(at_), [&](const Access& access) { return access.storage == storage; });
}

void Timeline::see_off_guests() {
  for (const StoragePlace guest : guests_) drop(guest);
  guests_.clear();
}

void Timeline::drop(StoragePlace storage) {
  live_ -= size(storage);
  close(storage);
  state_[storage] = State::dropped;
}

// The storage's bytes are there when this returns, or on their way: an op that wants several waits for none before the others
// have been asked for or made again.
void Timeline::bring_home(StoragePlace storage) {
  if (is_guest(storage)) guests_.push_back(storage);
  else if (state_[storage] != State::here && state_[storage] != State::absent) note_need(storage);
  if (state_[storage] == State::away) {
    const Costs& costs = problem_.costs();
    hold(at_, size(storage));
    outcome_.sum.effort += costs.host_per_copy;
    in_free_ = std::max({in_free_, clock_, ready_[storage]}) + problem_.copy_time(size(storage), costs.in_nanos_per_byte);
    ready_[storage] = in_free_;
    live_ += size(storage);
    open(storage);
    if (log_ != nullptr) log_->tag(storage, gap_of_[storage]);
    state_[storage] = State::coming;
  } else if (state_[storage] == State::dropped) {
    rebuild_in_full(storage);
  }
}

void Timeline::await(StoragePlace storage) {
  if (state_[storage] != State::coming) return;
  wait_until(ready_[storage]);
  state_[storage] = State::here;
}

void Timeline::rebuild_in_full(StoragePlace storage) {
  std::vector<StoragePlace> temporaries;
  ++rebuilding_;
  rebuild(storage, temporaries);
  --rebuilding_;
  for (const StoragePlace dead : temporaries) {
    live_ -= size(dead);
    close(dead);
  }
  if (rebuilding_ == 0) see_off_guests();
}

void Timeline::rebuild(StoragePlace storage, std::vector<StoragePlace>& temporaries) {
  const bool dead = is_gone(storage);
  const std::uint32_t version = problem_.version_at(storage, at_);
  if (!dead) state_[storage] = State::here;  // from here on nobody rebuilds it again
  const auto writers = step_.writers_of(storage).first(version);
  if (!rebuild_at_once(writers, storage, temporaries)) {
    bool made = false;
    for (const OpPlace writer : writers) {
      rerun(writer, storage, /*makes=*/!made, temporaries);
      if (!std::exchange(made, true)) live_ += size(storage);  // the first makes it, the others write into it
    }
  }
  if (dead) temporaries.push_back(storage);
  outcome_.sum.rebuilt += size(storage);
}

bool Timeline::rebuild_at_once(std::span<const OpPlace> writers, StoragePlace storage, std::vector<StoragePlace>& temporaries) {
  if (writers.size() == 1) return rebuild_straight(writers[0], storage, temporaries);
  const auto rides = [&](OpPlace writer) { return problem_.rides(writer); };
  if (!std::ranges::all_of(writers.subspan(1), rides) || !problem_.may_be_lean(writers[0], storage, at_)) return false;
  return run_in_one_pass(writers, storage, writers, storage, temporaries);
}

bool Timeline::rebuild_straight(OpPlace writer, StoragePlace storage, std::vector<StoragePlace>& temporaries) {
  const OpPlace maker = problem_.straight_from(writer, at_);
  if (maker == kNoPlace) return false;
  const StoragePlace source = problem_.made(maker).front();
  if (!is_gone(source) || std::ranges::find(temporaries, source) != temporaries.end()) return false;  // there, or made again for another
  const std::array readers{maker, writer};
  return run_in_one_pass(readers, source, {&writer, 1}, storage, temporaries);
}

bool Timeline::run_in_one_pass(std::span<const OpPlace> readers, StoragePlace first, std::span<const OpPlace> writers, StoragePlace storage,
                               std::vector<StoragePlace>& temporaries) {
  for (const OpPlace reader : readers) rebuild_dead(reader, first, temporaries);
  if (!is_lean(readers[0], first)) return false;
  bring_sides(readers[0]);
  for (const OpPlace reader : readers) bring_living(reader, first);
  await_sides(readers[0]);
  for (const OpPlace reader : readers) await_living(reader, first);
  hold(at_, size(storage));
  open(storage);
  live_ += size(storage);
  for (const OpPlace writer : writers) {
    clock_ += problem_.rerun_time(writer, /*lean=*/true);
    outcome_.sum.rebuild += problem_.rerun_time(writer, /*lean=*/true);
  }
  outcome_.sum.effort += problem_.costs().host_per_replay;
  return true;
}

// As the engine does: the dead first, then those that can come home.
void Timeline::rebuild_dead(OpPlace writer, StoragePlace wanted, std::vector<StoragePlace>& temporaries) {
  for (const Access& access : step_.accesses_at(writer)) {
    if (!is_ingredient(access, wanted) || !is_gone(access.storage)) continue;
    if (std::ranges::find(temporaries, access.storage) == temporaries.end()) rebuild(access.storage, temporaries);
  }
}

void Timeline::bring_living(OpPlace writer, StoragePlace wanted) {
  for (const Access& access : step_.accesses_at(writer)) {
    if (is_ingredient(access, wanted) && !is_gone(access.storage)) bring_home(access.storage);
  }
}

void Timeline::await_living(OpPlace writer, StoragePlace wanted) {
  for (const Access& access : step_.accesses_at(writer)) {
    if (is_ingredient(access, wanted)) await(access.storage);
  }
}

void Timeline::bring_sides(OpPlace writer) {
  for (const StoragePlace side : problem_.sides(writer)) bring_home(side);
}

void Timeline::await_sides(OpPlace writer) {
  for (const StoragePlace side : problem_.sides(writer)) await(side);
}

void Timeline::rerun(OpPlace writer, StoragePlace wanted, bool makes, std::vector<StoragePlace>& temporaries) {
  rebuild_dead(writer, wanted, temporaries);
  const bool lean = is_lean(writer, wanted);
  if (lean) bring_sides(writer);
  bring_living(writer, wanted);
  if (lean) await_sides(writer);
  await_living(writer, wanted);
  const LiveOp& ran = step_.ops()[writer];
  hold(at_, lean ? (makes ? size(wanted) : 0_B) : std::max(ran.transient, ran.made));
  if (!lean) log_takings(writer, wanted, makes);
  else if (makes) open(wanted);
  const Nanos took = problem_.rerun_time(writer, lean);
  clock_ += took;
  outcome_.sum.rebuild += took;
  outcome_.sum.effort += problem_.costs().host_per_replay;
  if (lean) return;
  // What else the op makes comes home with it.
  for (const StoragePlace sibling : problem_.made(writer)) {
    if (sibling == wanted || !comes_home(sibling)) continue;
    come(sibling);
    outcome_.sum.rebuilt += size(sibling);
  }
}

bool Timeline::is_lean(OpPlace writer, StoragePlace wanted) const {
  return problem_.may_be_lean(writer, wanted, at_) && std::ranges::none_of(problem_.sides(writer), [&](StoragePlace side) {
    return state_[side] == State::dropped || state_[side] == State::absent;
  });
}

// So many bytes more are taken for the op: whoever is leaving is waited for until they fit.
void Timeline::hold(OpPlace op, Bytes bytes) {
  while (!leaving_.empty() && (leaving_.front().end <= clock_ || live_ + bytes > problem_.budget())) {
    wait_until(forget_leaving());
  }
  outcome_.during[op] = std::max(outcome_.during[op], live_ + bytes);
  outcome_.sum.peak_home = std::max(outcome_.sum.peak_home, live_ + bytes - leaving_bytes_);
}

void Timeline::leave(GapPlace gap) {
  const StoragePlace storage = problem_.gaps()[gap].storage;
  if (choices_[gap].remedy == Remedy::keep || state_[storage] != State::here) return;
  if (!problem_.comes_back(gap) && held_until_[storage] > at_) return;  // kept beyond its death
  gap_of_[storage] = gap;
  if (choices_[gap].remedy == Remedy::drop) return drop(storage);
  state_[storage] = State::away;
  const std::uint32_t version = problem_.gaps()[gap].version;
  if (std::exchange(copied_[storage], version) == version) {  // the copy it left before is still good
    live_ -= size(storage);
    close(storage);
    return;
  }
  const Costs& costs = problem_.costs();
  out_free_ = std::max(out_free_, clock_) + problem_.copy_time(size(storage), costs.out_nanos_per_byte);
  push_leaving(storage);
  ready_[storage] = out_free_;
  outcome_.sum.moved += size(storage);
  outcome_.sum.effort += costs.host_per_copy;
  clock_ += Nanos{static_cast<std::int64_t>(static_cast<double>(size(storage).count) * costs.out_price)};
}

}  // namespace spillway
