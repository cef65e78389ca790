#include "report/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <unordered_map>

#include "trace/fields.h"

namespace spillway {
namespace {

using Json = nlohmann::json;

enum Track { kSteps, kCompute, kRecompute, kCopyOut, kCopyIn, kStalls };
constexpr std::array<std::string_view, 6> kTracks{"steps", "compute", "recompute", "copies out", "copies in", "stalls"};

double micros(Nanos time) { return static_cast<double>(time.count) / 1000; }

class PerfettoWriter {
 public:
  PerfettoWriter(const Trace& trace, std::ostream& out) : trace_(trace), out_(out) {}

  void write() {
    out_ << R"({"displayTimeUnit":"ms","traceEvents":[)";
    for (const Event& event : trace_.events) std::visit([&](const auto& one) { take(one); }, event);
    for (const std::uint32_t job : jobs_) describe(job);
    out_ << "\n]}\n";
  }

 private:
  struct Living {
    Bytes size;
    StorageKind kind;
    JobId job;
    bool on_device;
  };

  template <class E>
  void take(const E&) {}
  void take(const StepBegin& begin) { began_[begin.job] = begin.at; }
  void take(const StepEnd& end) {
    if (const auto began = began_.find(end.job); began != began_.end())
      slice(kSteps, end.job, fmt::format("step {}", end.step.index), began->second, end.at - began->second, {});
  }
  void take(const Op& op) {
    names_[op.index] = op.name;
    slice(kCompute, op.job, trace_.name(op.name), op.start, op.duration,
          {{"op", op.index.index},
           {"phase", kWords<Phase>[static_cast<std::size_t>(op.phase)]},
           {"transient", op.transient.count},
           {"workspace", op.workspace.count}});
  }
  void take(const Recompute& recompute) {
    slice(kRecompute, job_of(recompute.storage), op_name(recompute.replayed), recompute.start, recompute.duration,
          {{"storage", recompute.storage.index}, {"needed by", op_name(recompute.needed_by)}});
    set_resident(recompute.storage, true, recompute.start);
  }
  void take(const Move& move) {
    const bool in = move.to == TraceTier::device;
    const auto word = [](TraceTier tier) { return kWords<TraceTier>[static_cast<std::size_t>(tier)]; };
    slice(in ? kCopyIn : kCopyOut, job_of(move.storage),
          fmt::format("storage {} to {}{}", move.storage.index, word(move.to), move.clean ? " (clean)" : ""),
          move.start, move.duration, {{"bytes", move.size.count}, {"before", op_name(move.trigger)}});
    set_resident(move.storage, in, move.start);
  }
  void take(const Stall& stall) {
    slice(kStalls, stall.job, kWords<StallCause>[static_cast<std::size_t>(stall.cause)], stall.start, stall.duration,
          {{"op", op_name(stall.op)}});
  }
  void take(const StorageBirth& birth) {
    living_[birth.storage] = {birth.size, birth.kind, birth.job, false};
    set_resident(birth.storage, birth.tier == TraceTier::device, birth.at);
  }
  void take(const StorageDeath& death) {
    set_resident(death.storage, false, death.at);
    living_.erase(death.storage);
  }
  void take(const StorageRole& role) {
    const auto found = living_.find(role.storage);
    if (found == living_.end()) return;
    const bool there = found->second.on_device;
    if (there) set_resident(role.storage, false, now_);
    found->second.kind = role.kind;
    if (there) set_resident(role.storage, true, now_);
  }
  void take(const BudgetChange& change) { counter("budget", {{"bytes", change.budget.count}}, change.at); }
  void take(const Restart&) {
    living_.clear();
    device_ = {};
  }

  void set_resident(StorageId id, bool there, Nanos at) {
    const auto found = living_.find(id);
    if (found == living_.end() || found->second.on_device == there) return;
    found->second.on_device = there;
    Bytes& sum = device_[static_cast<std::size_t>(found->second.kind)];
    sum += there ? found->second.size : -found->second.size;
    now_ = std::max(now_, at);
    Json kinds;
    for (std::size_t kind = 0; kind < device_.size(); ++kind)
      kinds[std::string(kWords<StorageKind>[kind])] = device_[kind].count;
    counter("device memory", kinds, now_);
  }

  void slice(Track track, JobId job, std::string_view name, Nanos start, Nanos took, Json arguments) {
    jobs_.insert(job.index);
    put({{"ph", "X"},
         {"pid", job.index},
         {"tid", static_cast<int>(track)},
         {"name", name},
         {"ts", micros(start)},
         {"dur", micros(took)},
         {"args", std::move(arguments)}});
  }
  void counter(std::string_view name, const Json& values, Nanos at) {
    put({{"ph", "C"}, {"pid", 0}, {"name", name}, {"ts", micros(at)}, {"args", values}});
  }
  void describe(std::uint32_t job) {
    put({{"ph", "M"}, {"pid", job}, {"name", "process_name"}, {"args", {{"name", fmt::format("job {}", job)}}}});
    for (std::size_t track = 0; track < kTracks.size(); ++track) {
      put({{"ph", "M"}, {"pid", job}, {"tid", track}, {"name", "thread_name"}, {"args", {{"name", kTracks[track]}}}});
      put({{"ph", "M"},
           {"pid", job},
           {"tid", track},
           {"name", "thread_sort_index"},
           {"args", {{"sort_index", track}}}});
    }
  }
  void put(const Json& event) {
    out_ << (std::exchange(first_, false) ? "\n" : ",\n") << event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  [[nodiscard]] std::string op_name(OpIndex index) const {
    const auto found = names_.find(index);
    return found == names_.end() ? "" : std::string(trace_.name(found->second));
  }
  [[nodiscard]] JobId job_of(StorageId id) const {
    const auto found = living_.find(id);
    return found == living_.end() ? JobId{0} : found->second.job;
  }

  const Trace& trace_;
  std::ostream& out_;
  bool first_ = true;
  Nanos now_;
  std::set<std::uint32_t> jobs_;
  std::unordered_map<JobId, Nanos> began_;
  std::unordered_map<OpIndex, NameId> names_;
  std::unordered_map<StorageId, Living> living_;
  std::array<Bytes, kWords<StorageKind>.size()> device_{};
};

}  // namespace

void write_perfetto(const Trace& trace, std::ostream& out) { PerfettoWriter(trace, out).write(); }

}  // namespace spillway
