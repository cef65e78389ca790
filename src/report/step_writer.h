// Follows the events of one step and fills its record.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "report/step_record.h"

namespace spillway {

// What is known of a storage whichever step is drawn.
struct KnownStorage {
  StorageBirth birth;  // its tier is where it is now
  NameId made_by;
};

class StepWriter {
 public:
  StepWriter(StepWindow window, Nanos began) {
    record_.window = window;
    record_.began = began;
  }

  // What holds when the step begins.
  void there(const KnownStorage& storage);
  void budget(Bytes budget) { record_.budget = budget; }
  void plan(const PlanMade& plan, const std::vector<Decision>& decisions);

  template <class E>
  void take(const E&) {}
  void take(const StorageBirth& birth);
  void take(const StorageDeath& death);
  void take(const StorageRole& role);
  void take(const Op& op);
  void take(const Move& move);
  void take(const Recompute& recompute);
  void take(const Stall& stall);
  void take(const BudgetChange& change) { budget(change.budget); }
  void take(const PlanMade& made) { plan(made, {}); }
  void take(const Decision& decision);

  // `name_of`: the names of ops that ran, by index.
  StepRecord finish(Nanos ended, const std::unordered_map<OpIndex, NameId>& name_of);

 private:
  struct Place {
    std::uint32_t who = 0;
    bool on_device = false;
  };

  [[nodiscard]] Nanos since_begin(Nanos at) const { return std::max(Nanos{}, at - record_.began); }
  void advance(Nanos at);
  void end_transient(Nanos latest);
  void point(std::uint32_t who, std::uint8_t what);
  void put_on_device(Place& place, bool there);
  Place* find(StorageId id);
  std::uint32_t add_storage(const StorageBirth& birth, NameId made_by);

  StepRecord record_;
  Nanos now_;
  Bytes device_;
  std::unordered_map<StorageId, Place> places_;
  std::vector<std::uint32_t> born_;  // since the last op: what the next one may have made
  struct Pending {
    Nanos end;
    std::uint32_t transient;
  };
  std::optional<Pending> pending_;  // the transient of the latest op, until it ends
  std::vector<std::pair<std::size_t, OpIndex>> copy_ops_, stall_ops_, recompute_ops_, recompute_for_;
};

}  // namespace spillway
