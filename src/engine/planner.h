// Makes scripts from recorded steps on a thread of its own, the first one soon and better ones while there are any.
//
// Asked for `at_once`, everything is done by the thread that asks: same steps, same script, whatever the machine does; so no
// time is told either.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/script.h"
#include "plan/policies.h"

namespace spillway {

// Parts of a step's time for which a script is changed: while more may come, and for the last.
inline constexpr std::int64_t kWorth = 100, kLastWorth = 500;

// Where the search for a plan begins: without the choices made before; from them, if the steps are the same, and from everywhere
// else; or from them alone, where little has changed: looking everywhere takes seconds.
enum class SearchFrom : std::uint8_t { nothing, everywhere, choices };

struct PlanTask {
  std::shared_ptr<const RecordedSteps> steps;
  std::shared_ptr<const Liveness> foreseen;  // the same step at another size; null: as recorded
  Costs costs;
  Bytes budget;
  Ground ground;         // where its blocks may be placed
  const PlanPolicy* policy = nullptr;
  int rounds = 0;        // of improvement, at most, where the policy improves
  std::shared_ptr<const Script> standing = {};  // the one in use, for the same steps: what it promises now is told
  bool quick = false;    // the first plan will do
  SearchFrom from = SearchFrom::nothing;
  bool at_once = false;  // by the calling thread
  std::size_t threads = 1;  // that search; they make no difference but in time
  // Gets so many bytes ready below, before a script is told that sends them there; until the answer no longer matters.
  std::function<void(Bytes bytes, const std::function<bool()>& stop)> prepare = {};
};

// What the first script for a step promised, and how long it took to make: what the search after it has gained is seen beside it.
struct FirstPlan {
  Prediction predicted;
  Nanos took;
};

class Planner {
 public:
  Planner() = default;
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // What was under way is given up.
  void start(PlanTask task);
  void cancel();
  // What the newest script that nobody took yet promises.
  [[nodiscard]] std::optional<Prediction> offer() const;
  // Whether that has places for its blocks.
  [[nodiscard]] bool offers_places() const;
  // What the task's standing script promises as things are now: told once.
  [[nodiscard]] std::optional<Prediction> take_standing();
  // Of the last step that was planned from nothing. Empty: there was none yet.
  [[nodiscard]] std::optional<FirstPlan> first() const;
  // The newest script that nobody took yet; null when there is none.
  [[nodiscard]] std::shared_ptr<const Script> take();
  [[nodiscard]] bool busy() const;
  // Until there is a script to take or none will come, but no longer than this.
  void wait_for_first(std::chrono::milliseconds most);
  // For tests: until there is nothing left to improve.
  void wait();
  // The thread holds no lock between the two. A forked child has no such thread.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  void run(std::stop_token stop);
  void work(const PlanTask& task);
  [[nodiscard]] bool is_stale() const;
  void publish(std::shared_ptr<Script> script);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<PlanTask> task_;
  bool busy_ = false;
  std::shared_ptr<const Script> script_;
  std::optional<Prediction> standing_;
  std::optional<FirstPlan> first_;
  std::chrono::steady_clock::time_point asked_;  // when the task came
  bool tells_time_ = false;
  bool awaits_first_ = false;  // of a step: another task for it may come before that is there
  Plan plan_;  // the best so far: the working thread's
  std::jthread thread_;
};

}  // namespace spillway
