// One steady step as the engine will run it under given choices: memory op by op, compute and both link directions.
//
// Memory is counted as the engine counts it: a returning storage from the start of its way in, a leaving one until the
// end of its way out, and a leaving one is waited for only when its bytes are needed. A storage that is not there when an
// op wants it is fetched or rebuilt first, those on the link being waited for last, and a rebuild brings its living ancestors home,
// mostly for good, and its dead ones for as long as it runs.
#pragma once

#include <deque>
#include <vector>

#include "plan/blocks.h"
#include "plan/problem.h"

namespace spillway {

struct Choice {
  Remedy remedy = Remedy::keep;
  OpPlace fetch_at = 0;  // as in PlannedGap, and what follows
  bool again = false;
};

// Those of all that are dropped, by `until`.
[[nodiscard]] std::vector<Hold> holds_of(const Problem& problem, std::span<const Choice> choices);

// A plan's choices by gap of the problem.
[[nodiscard]] std::vector<Choice> choices_of(const Problem& problem, const Plan& plan);

struct Outcome {
  Prediction sum;
  std::vector<Bytes> during;  // by op: the most while it runs or while something is rebuilt for it
  std::vector<Nanos> starts;  // by op, before it waits for anything; and the end of the step
  std::vector<OpPlace> needed_at;  // by gap: the op for which its storage came home, its end or, for a rebuild, earlier
};

class Timeline {
 public:
  explicit Timeline(const Problem& problem);

  // The outcome is good until the next call; it may be swapped for another, whose room is then used. Linear in accesses, actions
  // and reruns. `log`: the blocks it takes are written down there.
  Outcome& run(std::span<const Choice> choices, BlockLog* log = nullptr);

 private:
  enum class State : std::uint8_t { absent, here, coming, away, dropped };
  struct Leaving {
    Bytes size;
    Nanos end;
    std::uint32_t block;  // in the log
  };

  Nanos run_once(std::span<const Choice> choices);
  void sum_up();
  void begin(std::span<const Choice> choices);
  void begin_wrapped();
  void begin_holds();
  void end_lives(OpPlace op);
  void run_op(OpPlace op);
  void start_fetches();
  [[nodiscard]] Nanos take_over(Bytes bytes);
  Nanos forget_leaving();
  void start_fetch(GapPlace gap, Nanos room);
  void end_waiting();
  [[nodiscard]] Nanos late_for_next() const;
  void bring_home(StoragePlace storage);
  void await(StoragePlace storage);
  void rebuild_in_full(StoragePlace storage);
  [[nodiscard]] bool is_guest(StoragePlace storage) const;
  // Dead, and not kept for another's rebuild.
  [[nodiscard]] bool is_gone(StoragePlace storage) const { return problem_.is_dead(storage, at_) && held_until_[storage] <= at_; }
  void see_off_guests();
  void drop(StoragePlace storage);
  void rebuild(StoragePlace storage, std::vector<StoragePlace>& temporaries);
  // In one pass over the op that makes it and those that change it after, or over its dead source's maker; false: they run one
  // by one.
  bool rebuild_at_once(std::span<const OpPlace> writers, StoragePlace storage, std::vector<StoragePlace>& temporaries);
  bool rebuild_straight(OpPlace writer, StoragePlace storage, std::vector<StoragePlace>& temporaries);
  // `readers`: the ops whose arguments it reads, of which the first makes `first`; `writers`: those it stands for.
  bool run_in_one_pass(std::span<const OpPlace> readers, StoragePlace first, std::span<const OpPlace> writers, StoragePlace storage,
                       std::vector<StoragePlace>& temporaries);
  void rerun(OpPlace writer, StoragePlace wanted, bool makes, std::vector<StoragePlace>& temporaries);
  void rebuild_dead(OpPlace writer, StoragePlace wanted, std::vector<StoragePlace>& temporaries);
  void bring_living(OpPlace writer, StoragePlace wanted);
  void await_living(OpPlace writer, StoragePlace wanted);
  void bring_sides(OpPlace writer);
  void await_sides(OpPlace writer);
  // Whether the storage is made again from the other results of its maker, all of which must be there or on the link.
  [[nodiscard]] bool is_lean(OpPlace writer, StoragePlace wanted) const;
  void hold(OpPlace op, Bytes bytes);
  void leave(GapPlace gap);
  void appear(StoragePlace storage, std::uint32_t during, bool first = false);
  void push_leaving(StoragePlace storage);
  void come(StoragePlace storage);
  [[nodiscard]] bool comes_home(StoragePlace sibling) const;
  void log_takings(OpPlace op, StoragePlace wanted, bool makes);
  void vanish(StoragePlace storage);
  void open(StoragePlace storage) { if (log_ != nullptr) log_->open(storage, size(storage), at_ + 1); }
  void close(StoragePlace storage) { if (log_ != nullptr) log_->close(storage); }
  void wait_until(Nanos time);
  void note_need(StoragePlace storage);
  [[nodiscard]] Bytes size(StoragePlace storage) const { return step_.storages()[storage].size; }

  const Problem& problem_;
  const Liveness& step_;
  std::span<const Choice> choices_;
  std::span<const Nanos> before_;  // when the ops of the step before began
  std::vector<State> state_;
  std::vector<Nanos> ready_;    // coming: when its bytes are there; away: when its way out ends
  std::vector<std::uint32_t> copied_;           // the version that lies below, if any
  std::vector<GapPlace> gap_of_;                // by storage: the gap it left for
  std::vector<std::vector<GapPlace>> fetches_;  // by op
  std::deque<GapPlace> waiting_;                // fetches due, for want of room
  std::deque<Leaving> leaving_;
  std::vector<GapPlace> wrapping_;              // moved over the step's end
  Bytes live_, leaving_bytes_;  // live: what is leaving included
  Nanos clock_, out_free_, in_free_;
  OpPlace at_ = 0;
  int rebuilding_ = 0;                  // rebuilds inside each other
  std::vector<StoragePlace> guests_;    // home for as long as the outermost takes
  std::vector<OpPlace> held_until_;     // by storage: kept beyond its death, for a rebuild, until before this op
  std::vector<Hold> holds_;
  std::size_t next_hold_ = 0;           // to end
  BlockLog* log_ = nullptr;
  Outcome outcome_;
};

}  // namespace spillway
