// One task of the planner: a first script soon, then better ones while there are any.
//
// Plans are searched for by bytes, and their blocks then get places. A plan that is tight by bytes may have none, and one made
// for a little less memory is better than one cut down to it: so the search begins anew for what places turned out to take.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/planner.h"

namespace spillway {

class PlanWork {
 public:
  // Where scripts go.
  struct Desk {
    std::function<bool()> is_stale;    // the answer no longer matters
    std::function<bool()> is_untaken;  // the last script lies there still
    std::function<void(std::shared_ptr<Script>)> publish;
  };

  // `plan`: the best so far, of this step for another budget or empty.
  PlanWork(const PlanTask& task, const Liveness& step, Plan& plan, Desk desk);

  // What the task's standing script promises as things are now.
  [[nodiscard]] std::optional<Prediction> standing() const { return standing_; }
  void run();

 private:
  // The first for whoever has none, soon.
  void begin_by_price();
  void begin_anywhere(const PlanRequest& request, const Plan& plan);
  // The first of the search, with places for its blocks, or without any where those would cost too much.
  void begin();
  // What is worth a decision.
  [[nodiscard]] Bytes smallest() const;
  [[nodiscard]] std::shared_ptr<Script> plan_and_place();
  void search();
  void search_everywhere(int look, std::uint32_t& seed);
  [[nodiscard]] std::vector<Plan> begin_everywhere(int tries, std::uint32_t& seed);
  void improve_all(std::vector<Plan>& plans, int tries, std::uint32_t& seed) const;
  void consider(Plan found);
  // What is better enough is published. `last`: nothing more is to come.
  void tell(bool last);
  [[nodiscard]] bool is_news(const Prediction& found, bool last) const;
  // Plans for less and less until the plan's blocks have places; null when that leads nowhere.
  [[nodiscard]] std::shared_ptr<Script> try_place(PlanRequest& request, Plan& plan);
  [[nodiscard]] std::pair<std::shared_ptr<Script>, Plan> place_best(bool last);
  // The plan for less memory than it was made for.
  [[nodiscard]] Plan with_less(const PlanRequest& request, const Plan& plan, int round) const;
  [[nodiscard]] std::shared_ptr<Script> write(const PlanRequest& request, const Plan& plan, bool place) const;
  void publish(std::shared_ptr<Script> script);

  const PlanTask& task_;
  const Liveness& step_;
  PlanRequest request_;
  Plan& plan_;
  Desk desk_;
  std::optional<Prediction> standing_;
  Plan told_;                         // the latest that was published
  std::vector<Plan> best_;            // of the latest search, whether they have places or not
  bool is_begun_ = false;             // there is something to follow already
  bool placed_ = false;               // who has places does not give them up
  std::optional<Prediction> in_vain_; // that had no places
  std::optional<Bytes> tighter_;      // what a plan should be made for whose blocks would fit, as the latest without places shows
};

}  // namespace spillway
