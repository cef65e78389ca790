#include "trace/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "trace/fields.h"

namespace spillway {
namespace {

constexpr Bytes kMostBytes{std::int64_t{1} << 62};

struct JobSteps {
  StepIndex open;  // valid while a step is open
  StepIndex last;
};

class Checker {
 public:
  Checker(std::size_t most) : most_(most) {}

  void check(std::size_t at, const Event& event) {
    at_ = at;
    std::visit(
        [&](const auto& one) {
          each_field(*this, one);
          judge(one);
        },
        event);
  }
  [[nodiscard]] bool full() const { return problems_.size() >= most_; }
  std::vector<TraceProblem> take() { return std::move(problems_); }

  // The visitor: laws that hold for a field wherever it occurs.
  void operator()(std::string_view field, Bytes value) { not_negative(field, value.count); }
  void operator()(std::string_view field, Nanos value) { not_negative(field, value.count); }
  void operator()(std::string_view field, const std::array<Nanos, kStallCauseCount>& values) {
    for (const Nanos value : values) not_negative(field, value.count);
  }
  void operator()(std::string_view field, NameId id) {
    if (!names_.knows(id)) complain("{} is name {}, which was not announced", field, id.index);
  }
  template <class T>
  void operator()(std::string_view, const T&) {}
  template <class T>
  void announced(std::string_view, const T&) {}
  template <class T>
  void since(std::uint16_t, std::string_view field, const T& value) {
    (*this)(field, value);
  }
  void moment(std::string_view field, Nanos at) { not_negative(field, at.count); }

 private:
  template <class... Args>
  void complain(fmt::format_string<Args...> text, Args&&... args) {
    if (!full()) problems_.push_back({at_, fmt::format(text, std::forward<Args>(args)...)});
  }
  void not_negative(std::string_view field, std::int64_t value) {
    if (value < 0) complain("{} is negative: {}", field, value);
  }
  void need_living(std::string_view user, StorageId id) {
    if (!id.valid()) return complain("{} names no storage", user);
    if (living_.contains(id)) return;
    complain("{} names storage {}, which is not alive", user, id.index);
  }
  void need_all_living(std::string_view user, const std::vector<StorageId>& ids) {
    for (const StorageId id : ids) need_living(user, id);
  }

  template <class E>
  void judge(const E&) {}
  void judge(const Name& name) {
    if (const auto problem = names_.announce(name)) complain("{}", *problem);
  }
  void judge(const StepBegin& begin);
  void judge(const StepEnd& end);
  void judge(const StorageBirth& birth);
  void judge(const StorageDeath& death);
  void judge(const StorageRole& role) { need_living("role", role.storage); }
  void judge(const Op& op);
  void judge(const Move& move) { need_living("move", move.storage); }
  void judge(const Recompute& recompute) { need_living("recompute", recompute.storage); }
  void judge(const Allocation& allocation) { need_range(allocation.range); }
  void judge(const Release& release) { need_range(release.range); }
  void judge(const Restart&);
  void need_range(Range range) {
    if (range.end < range.begin)
      complain("the range [{}, {}) ends before it begins", range.begin.count, range.end.count);
  }

  std::size_t most_, at_ = 0;
  std::vector<TraceProblem> problems_;
  NameBook names_;
  std::unordered_map<StorageId, Bytes> living_;
  std::unordered_map<JobId, JobSteps> jobs_;
  Bytes live_;
  std::uint32_t next_storage_ = 0;
  OpIndex last_op_;
  bool restarted_ = false;
};

void Checker::judge(const StepBegin& begin) {
  JobSteps& steps = jobs_[begin.job];
  if (!begin.step.valid()) complain("a step begins without an index");
  if (steps.open.valid())
    complain("step {} begins before step {} of its job ended", begin.step.index, steps.open.index);
  if (steps.last.valid() && begin.step <= steps.last)
    complain("step {} begins after step {} of its job", begin.step.index, steps.last.index);
  steps.open = steps.last = begin.step;
}

void Checker::judge(const StepEnd& end) {
  JobSteps& steps = jobs_[end.job];
  if (!steps.open.valid() || steps.open != end.step) complain("step {} ends without having begun", end.step.index);
  steps.open = {};
}

void Checker::judge(const StorageBirth& birth) {
  const StorageId id = birth.storage;
  if (!id.valid()) return complain("a storage without an id is born");
  if (living_.contains(id)) return complain("storage {} is born while it lives", id.index);
  if (!restarted_ && id.index != next_storage_)
    complain("storage {} is born where {} is next", id.index, next_storage_);
  next_storage_ = std::max(next_storage_, id.index + 1);
  const bool absurd = birth.size < Bytes{} || birth.size > kMostBytes - live_;
  if (absurd) complain("storage {} makes the sum of sizes absurd: {}", id.index, birth.size.count);
  const Bytes counted = absurd ? Bytes{} : birth.size;
  living_.emplace(id, counted);
  live_ += counted;
}

void Checker::judge(const StorageDeath& death) {
  need_living("death", death.storage);
  const auto found = living_.find(death.storage);
  if (found == living_.end()) return;
  live_ -= found->second;
  living_.erase(found);
}

void Checker::judge(const Op& op) {
  if (!op.index.valid()) complain("an op without an index");
  if (!op.name.valid()) complain("op {} has no name", op.index.index);
  if (last_op_.valid() && op.index <= last_op_) complain("op {} comes after op {}", op.index.index, last_op_.index);
  last_op_ = op.index;
  need_all_living("input", op.inputs);
  need_all_living("output", op.outputs);
  need_all_living("mutated", op.mutated);
  need_all_living("aliased", op.aliased);
  if (op.replayable && op.why_not.valid()) complain("op {} may be replayed, yet says why not", op.index.index);
  if (op.step.valid() && jobs_[op.job].open != op.step)
    complain("op {} runs in step {}, which is not open", op.index.index, op.step.index);
}

void Checker::judge(const Restart&) {
  living_.clear();
  live_ = {};
  restarted_ = true;
  for (auto& [job, steps] : jobs_) steps = {.last = steps.open.valid() ? StepIndex{} : steps.last};
}

}  // namespace

std::vector<TraceProblem> check_trace(const Trace& trace, std::size_t most) {
  Checker checker(most);
  for (std::size_t at = 0; at < trace.events.size() && !checker.full(); ++at) checker.check(at, trace.events[at]);
  return checker.take();
}

}  // namespace spillway
