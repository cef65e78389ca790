#include <algorithm>
#include <map>

#include "report/step_record.h"
#include "report/step_writer.h"
#include "trace/standing.h"

namespace spillway {
namespace {

// Walks the whole trace once, with what stands at every moment, and hands the events of chosen steps to their writers.
class RunWalk {
 public:
  RunWalk(const Trace& trace, std::uint64_t most_cost) : trace_(trace), windows_(find_windows(trace)) {
    for (const std::size_t at : choose_windows(windows_, most_cost)) chosen_[windows_[at].begin] = at;
  }

  RunRecord walk() {
    for (at_ = 0; at_ < trace_.events.size(); ++at_) {
      if (const auto found = chosen_.find(at_); found != chosen_.end()) open(windows_[found->second]);
      std::visit([&](const auto& event) { take(event); }, trace_.events[at_]);
      close_ended();
    }
    end_open_steps();
    link();
    return std::move(run_);
  }

 private:
  struct Plan {
    PlanMade made;
    std::vector<Decision> decisions;
  };
  struct OpenStep {
    StepWindow window;
    StepWriter writer;
  };

  template <class E>
  void take(const E& event) {
    standing_.observe(event);
    for (OpenStep& step : open_) hand(step, event);
    follow(event);
    for (const StepSummary& sums : standing_.take_summaries()) run_.lines.push_back({.sums = sums});
  }

  // Ops, stalls and plans belong to a job; memory is everybody's.
  template <class E>
  void hand(OpenStep& step, const E& event) {
    if constexpr (requires { event.job; } && !std::is_same_v<E, StorageBirth>) {
      if (event.job.valid() && event.job != step.window.job) return;
    }
    step.writer.take(event);
  }

  template <class E>
  void follow(const E&) {}
  void follow(const StepBegin& begin) { now_ = std::max(now_, begin.at); }
  void follow(const StepEnd& end) { now_ = std::max(now_, end.at); }
  void follow(const StepSummary& sums) { run_.lines.push_back({.sums = sums}); }
  void follow(const StorageBirth& birth) {
    now_ = std::max(now_, birth.at);
    living_[birth.storage] = {birth, {}};
  }
  void follow(const StorageDeath& death) {
    now_ = std::max(now_, death.at);
    living_.erase(death.storage);
  }
  void follow(const StorageRole& role) {
    if (const auto found = living_.find(role.storage); found != living_.end()) found->second.birth.kind = role.kind;
  }
  void follow(const Op& op) {
    now_ = std::max(now_, op.start + op.duration);
    names_[op.index] = op.name;
    next_ = OpIndex{op.index.index + 1};
    for (const StorageId id : op.outputs)
      if (const auto found = living_.find(id); found != living_.end() && !found->second.made_by.valid())
        found->second.made_by = op.name;
  }
  void follow(const Move& move) { set_tier(move.storage, move.to); }
  void follow(const Recompute& recompute) { set_tier(recompute.storage, TraceTier::device); }
  void follow(const BudgetChange& change) { budget_ = change.budget; }
  void follow(const PlanMade& plan) { plans_[plan.job] = {plan, {}}; }
  void follow(const Decision& decision) {
    if (decision.planned) plans_[decision.job].decisions.push_back(decision);
  }
  void follow(const Restart&) { living_.clear(); }

  void set_tier(StorageId id, TraceTier tier) {
    if (const auto found = living_.find(id); found != living_.end()) found->second.birth.tier = tier;
  }

  void open(const StepWindow& window) {
    const auto* begin = std::get_if<StepBegin>(&trace_.events[window.begin]);
    OpenStep& step = open_.emplace_back(OpenStep{window, StepWriter(window, begin == nullptr ? Nanos{} : begin->at)});
    for (const auto& [id, storage] : living_) step.writer.there(storage);
    step.writer.budget(budget_);
    if (const auto plan = plans_.find(window.job); plan != plans_.end()) {
      std::erase_if(plan->second.decisions, [&](const Decision& decision) { return is_over(decision, next_); });
      step.writer.plan(plan->second.made, plan->second.decisions);
    }
  }
  void close_ended() {
    for (std::size_t i = 0; i < open_.size();) {
      if (open_[i].window.end > at_ + 1) {
        ++i;
        continue;
      }
      run_.records.push_back(open_[i].writer.finish(now_, names_));
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  // A run that was cut short: what its last step did until then is told like that of the others.
  void end_open_steps() {
    for (const StepWindow& window : windows_)
      if (!window.whole) {
        standing_.observe(StepEnd{window.step, window.job, now_});
        for (const StepSummary& sums : standing_.take_summaries())
          if (sums.step == window.step) run_.lines.push_back({.sums = sums, .whole = false});
      }
  }

  // Gives every record its line.
  void link() {
    const auto place = [](const RunRecord::Line& line) { return std::pair(line.sums.job, line.sums.step); };
    std::ranges::stable_sort(run_.lines, {}, place);
    for (std::size_t i = 0; i < run_.records.size(); ++i) {
      const StepRecord& record = run_.records[i];
      const std::pair at(record.window.job, record.window.step);
      auto line = std::ranges::lower_bound(run_.lines, at, {}, place);
      if (line == run_.lines.end() || place(*line) != at) line = run_.lines.insert(line, {.sums = sums_of(record)});
      line->record = static_cast<std::int32_t>(i);
      line->whole = record.window.whole;
    }
  }
  // For a trace without steps.
  static StepSummary sums_of(const StepRecord& record) {
    return {.step = record.window.step,
            .job = record.window.job,
            .ops = record.window.ops,
            .peak = record.peak,
            .at = record.began,
            .duration = record.duration};
  }

  const Trace& trace_;
  std::vector<StepWindow> windows_;
  std::map<std::size_t, std::size_t> chosen_;  // event where it begins -> window
  std::size_t at_ = 0;
  Standing standing_;
  std::map<StorageId, KnownStorage> living_;  // in the order of ids: equal traces give equal pages
  std::unordered_map<OpIndex, NameId> names_;
  std::map<JobId, Plan> plans_;
  OpIndex next_;  // of the op to come
  Bytes budget_;
  Nanos now_;
  std::vector<OpenStep> open_;
  RunRecord run_;
};

}  // namespace

RunRecord record_run(const Trace& trace, std::uint64_t most_cost) { return RunWalk(trace, most_cost).walk(); }

}  // namespace spillway
