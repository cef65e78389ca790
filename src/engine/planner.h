// Makes scripts from recorded steps on a thread of its own, the first one soon and better ones while there are any.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/script.h"

namespace spillway {

struct PlanTask {
  std::shared_ptr<const RecordedSteps> steps;
  Costs costs;
  Bytes budget;
  bool anew = true;  // false: the same steps as before, so the choices made for them are a start
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
  // The newest script that nobody took yet; null when there is none.
  [[nodiscard]] std::shared_ptr<const Script> take();
  [[nodiscard]] bool busy() const;
  // For tests: until there is nothing left to improve.
  void wait();

 private:
  void run(std::stop_token stop);
  void work(const PlanTask& task, Plan& plan);
  [[nodiscard]] bool is_stale() const;
  void publish(std::shared_ptr<const Script> script);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<PlanTask> task_;
  bool busy_ = false;
  std::shared_ptr<const Script> script_;
  std::jthread thread_;
};

}  // namespace spillway
