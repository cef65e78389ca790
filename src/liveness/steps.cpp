#include "liveness/steps.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace spillway {
namespace {

class StepFinder {
 public:
  void take(std::size_t at, const Event& event) {
    at_ = at;
    std::visit([&](const auto& one) { see(one); }, event);
  }
  std::vector<WholeStep> finish() { return std::move(whole_); }

 private:
  template <class E>
  void see(const E&) {}
  void see(const StepBegin& begin) {
    open_.erase(begin.job);
    if (begin.at < restarted_) return;  // announced again: what it did before is lost
    open_[begin.job] = {.job = begin.job, .step = begin.step, .begin = at_};
  }
  void see(const Op& op) {
    if (const auto found = open_.find(op.job); found != open_.end()) ++found->second.ops;
  }
  void see(const StepEnd& end) {
    const auto found = open_.find(end.job);
    if (found == open_.end() || found->second.step != end.step) return;
    found->second.end = at_ + 1;
    whole_.push_back(found->second);
    open_.erase(found);
  }
  void see(const Restart& restart) {
    open_.clear();
    restarted_ = restart.at;
  }

  std::size_t at_ = 0;
  std::unordered_map<JobId, WholeStep> open_;
  std::vector<WholeStep> whole_;
  Nanos restarted_;
};

}  // namespace

std::vector<WholeStep> find_whole_steps(const Trace& trace) {
  StepFinder finder;
  for (std::size_t at = 0; at < trace.events.size(); ++at) finder.take(at, trace.events[at]);
  return finder.finish();
}

std::optional<WholeStep> find_step(const Trace& trace, StepIndex step, JobId job) {
  for (const WholeStep& whole : find_whole_steps(trace))
    if (whole.step == step && whole.job == job) return whole;
  return std::nullopt;
}

std::optional<WholeStep> find_steady_step(const Trace& trace) {
  const std::vector<WholeStep> steps = find_whole_steps(trace);
  const auto found = std::find_if(steps.rbegin(), steps.rend(), [](const WholeStep& step) { return step.ops > 0; });
  if (found == steps.rend()) return std::nullopt;
  return *found;
}

}  // namespace spillway
