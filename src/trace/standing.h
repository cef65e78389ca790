// What holds at a point of a run: feed it the events in order, ask it at any point.
//
// It knows the living storages and where they are, the granted ranges, open steps with their sums so far, budgets and
// plans in force. From it a trace can restart in mid-run (`announce`), and each step that ends leaves its summary.
// Events that contradict what it knows are ignored: judging a trace is check_trace's business.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trace/event.h"
#include "trace/flat_table.h"

namespace spillway {

class Standing {
 public:
  // Most events change nothing that lasts.
  template <class E>
  void observe(const E&) {}
  void observe(const Fact& fact);
  void observe(const Name& name) { names_.push_back(name); }
  void observe(const StepBegin& begin);
  void observe(const StepEnd& end);
  void observe(const StorageBirth& birth);
  void observe(const StorageDeath& death);
  void observe(const StorageRole& role);
  void observe(const Op& op);
  void observe(const Allocation& allocation);
  void observe(const Release& release);
  void observe(const Reserved& reserved);
  void observe(const Move& move);
  void observe(const Recompute& recompute);
  void observe(const Stall& stall);
  void observe(const BudgetChange& change);
  void observe(const PlanMade& plan);
  void observe(const Decision& decision);
  void observe(const Restart& restart);

  // Bytes of the living storages on the device now, and the most there ever were.
  [[nodiscard]] Bytes device() const { return device_; }
  [[nodiscard]] Bytes peak_live() const { return peak_live_; }
  // The same with what ops needed on top while they ran.
  [[nodiscard]] Bytes peak() const { return peak_; }
  [[nodiscard]] std::size_t living() const { return living_.size(); }
  [[nodiscard]] std::size_t open_steps() const { return open_.size(); }
  [[nodiscard]] const StorageBirth* find(StorageId storage);

  // The summaries of the steps that ended since the last call.
  [[nodiscard]] std::vector<StepSummary> take_summaries();

  // Facts and names observed so far are on record elsewhere; `announce` need not repeat them.
  void forget_texts();

  // Everything a reader who starts here must be told, in an order that reads as a trace: announce(event) for each.
  template <class Announce>
  void announce(Announce&& announce) const;

 private:
  struct Living {
    StorageBirth birth;  // with its kind and tier of now
    std::uint64_t ops_before = 0;
  };
  struct Plan {
    PlanMade made;
    std::vector<Decision> decisions;
    std::size_t most = 0;  // until it is looked which are over
  };

  void note_time(Nanos at) { now_ = std::max(now_, at); }
  void add_device(Bytes size);
  void raise_peak(Bytes bytes);
  void set_tier(Living& living, TraceTier tier);
  StepSummary* find_open(JobId job);

  FlatTable<Living> living_;
  FlatTable<Allocation> granted_;
  std::vector<std::pair<StepBegin, StepSummary>> open_;
  std::vector<StepSummary> ended_;
  std::vector<Reserved> reserved_;
  std::vector<BudgetChange> budgets_;
  std::vector<Plan> plans_;
  std::vector<Fact> facts_;
  std::vector<Name> names_;
  Bytes device_, peak_live_, peak_;
  Nanos now_;
  std::uint64_t ops_ = 0;
};

template <class Announce>
void Standing::announce(Announce&& announce) const {
  announce(Restart{.at = now_});
  for (const Fact& fact : facts_) announce(fact);
  for (const Name& name : names_) announce(name);
  for (const BudgetChange& budget : budgets_) announce(budget);
  for (const Reserved& reserved : reserved_) announce(reserved);
  for (const auto& [key, living] : living_.sorted()) announce(living.birth);
  for (const auto& [key, allocation] : granted_.sorted()) announce(allocation);
  for (const auto& [begin, sums] : open_) announce(begin);
  for (const Plan& plan : plans_) {
    announce(plan.made);
    for (const Decision& decision : plan.decisions) announce(decision);
  }
}

}  // namespace spillway
