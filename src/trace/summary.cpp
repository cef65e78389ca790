#include "trace/summary.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "trace/saturate.h"
#include "trace/standing.h"

namespace spillway {
namespace {

class Summarizer {
 public:
  void take(const Event& event) {
    std::visit(
        [&](const auto& one) {
          standing_.observe(one);
          count(one);
        },
        event);
  }
  TraceSummary finish();

 private:
  template <class E>
  void count(const E&) {}
  void count(const StorageBirth& birth) { storages_.insert_or_assign(birth.storage, birth); }
  void count(const StorageRole& role) {
    if (const auto found = storages_.find(role.storage); found != storages_.end()) found->second.kind = role.kind;
  }
  void count(const StepEnd&) { ++sums_.whole_steps; }
  void count(const Op& op) {
    ++sums_.ops;
    ++sums_.ops_by_phase[static_cast<std::size_t>(op.phase)];
    saturating_add(sums_.op_time, op.duration);
  }
  void count(const Move& move) {
    if (move.clean) return;
    if (move.to == TraceTier::device) saturating_add(sums_.moved_in, move.size);
    if (move.from == TraceTier::device && move.to != TraceTier::nowhere) saturating_add(sums_.moved_out, move.size);
  }
  void count(const Recompute& recompute) {
    ++sums_.recomputed;
    saturating_add(sums_.recompute, recompute.duration);
  }
  void count(const Stall& stall) { saturating_add(sums_.stall, stall.duration); }
  void count(const StepSummary& step) {
    ++sums_.summarized_steps;
    peak_ = std::max(peak_, step.peak);
  }

  Standing standing_;
  std::unordered_map<StorageId, StorageBirth> storages_;  // a restart announces some again
  TraceSummary sums_;
  Bytes peak_;
};

TraceSummary Summarizer::finish() {
  for (const auto& [id, birth] : storages_) {
    KindSum& kind = sums_.by_kind[static_cast<std::size_t>(birth.kind)];
    ++kind.storages;
    saturating_add(kind.bytes, birth.size);
    saturating_add(sums_.born, birth.size);
  }
  sums_.storages = storages_.size();
  sums_.peak_live = standing_.peak_live();
  sums_.peak = std::max(peak_, standing_.peak());
  return sums_;
}

}  // namespace

TraceSummary summarize(const Trace& trace) {
  Summarizer summarizer;
  for (const Event& event : trace.events) summarizer.take(event);
  return summarizer.finish();
}

std::string to_table(const Trace& trace) {
  const TraceSummary sums = summarize(trace);
  std::string table;
  const auto row = [&](std::string_view what, auto value, std::string_view unit = "") {
    table += fmt::format("{:<24}{:>20}{}{}\n", what, value, unit.empty() ? "" : " ", unit);
  };
  for (const Event& event : trace.events)
    if (const Fact* fact = std::get_if<Fact>(&event)) row(fact->key, fact->value);
  row("steps whole", sums.whole_steps);
  row("steps summarized", sums.summarized_steps);
  row("ops", sums.ops);
  for (std::size_t i = 0; i < sums.ops_by_phase.size(); ++i)
    row(fmt::format("  {}", kWords<Phase>[i]), sums.ops_by_phase[i]);
  row("op time", sums.op_time.count, "ns");
  row("storages", sums.storages);
  for (std::size_t i = 0; i < sums.by_kind.size(); ++i) {
    row(fmt::format("  {}", kWords<StorageKind>[i]), sums.by_kind[i].storages);
    row("", sums.by_kind[i].bytes.count, "bytes");
  }
  row("born", sums.born.count, "bytes");
  row("peak live", sums.peak_live.count, "bytes");
  row("peak with transients", sums.peak.count, "bytes");
  row("moved out", sums.moved_out.count, "bytes");
  row("moved in", sums.moved_in.count, "bytes");
  row("recomputed", sums.recomputed);
  row("recompute time", sums.recompute.count, "ns");
  row("stall time", sums.stall.count, "ns");
  return table;
}

}  // namespace spillway
