// One rebuild of a dropped storage on the simulated card: its recipes run again, in order.
//
// As the torch adapter does it: dead ancestors become temporaries that live as long as the rebuild, an op makes all its
// results and takes its workspace, and results whose own storages are dropped go home with the one that was wanted.
#pragma once

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
  using Siblings = std::vector<std::pair<std::size_t, Record*>>;  // by position among the results

  [[nodiscard]] Record* make(const Record& record);
  [[nodiscard]] Record* run(OpRecipe& recipe, const Record& wanted, Record* so_far);
  [[nodiscard]] Record* take_memory(const OpRecipe& recipe, const Record& wanted);
  [[nodiscard]] Record* execute(OpRecipe& recipe, const Record& wanted);
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
