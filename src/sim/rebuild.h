// One rebuild of a dropped storage on the simulated card: its recipes run again, in order.
//
// As the torch adapter does it: dead ancestors become temporaries that live as long as the rebuild and may leave between its
// ops, an op makes all its results and takes its workspace, and results whose own storages are dropped go home with the one
// that was wanted. A lean rebuild makes that one alone, and so does one pass over several ops: see Note [Lean rebuilds] in
// engine/recipe.h.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "sim/op_recipe.h"

namespace spillway {

class Player;

class Rebuild {
 public:
  Rebuild(Player& player, Record& target) : player_(player), target_(target) {}
  ~Rebuild();
  Rebuild(const Rebuild&) = delete;
  Rebuild& operator=(const Rebuild&) = delete;

  void run();

 private:
  // Ops that are made again as one.
  struct Pass {
    std::vector<OpRecipe*> readers;  // whose arguments it reads; the first has the sides
    const Record* first = nullptr;   // what that one made
    Nanos time;
  };
  using Siblings = std::vector<std::pair<std::size_t, Record*>>;  // by position among the results

  [[nodiscard]] Record* make(const Record& record);
  [[nodiscard]] Record* run(OpRecipe& recipe, const Record& wanted, Record* so_far);
  // Empty: op by op.
  [[nodiscard]] std::optional<Pass> find_pass(std::span<Recipe* const> recipes, const Record& wanted) const;
  // Null when its sides are not there: then the ops run one by one.
  [[nodiscard]] Record* run_at_once(const Pass& pass, const Record& wanted);
  void make_dead(const Recipe& recipe, const Record& wanted);
  void add_sources(const Recipe& recipe, const Record& wanted, std::vector<Use>& uses) const;
  template <class Execute>
  void run_with(const std::vector<Use>& uses, const Record& wanted, Record*& so_far, Execute execute);
  [[nodiscard]] Record* take_memory(const OpRecipe& recipe, const Record& wanted);
  [[nodiscard]] Record* execute(OpRecipe& recipe, const Record& wanted);
  // One pass that makes what is wanted, beside nothing else.
  [[nodiscard]] Record* execute_lean(const OpRecipe& shown, const Record& wanted, Nanos time);
  void hand_over(Record& record, Record* made, std::span<const ReplayNote> replays);
  void free(Record* record);
  void free_for_now();
  void free_siblings();
  void settle_siblings(const Recipe& recipe);

  Player& player_;
  Record& target_;
  ReplayNote latest_;
  std::vector<ReplayNote> replays_;
  std::vector<std::pair<const Record*, Record*>> temporaries_;
  std::vector<Record*> partial_;  // what each running make() has so far, outermost first
  Siblings siblings_;
  std::vector<std::pair<StoragePlace, Record*>> for_now_;  // what the op that runs took and nobody gets
};

}  // namespace spillway
