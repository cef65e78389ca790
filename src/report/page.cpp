#include "report/page.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "liveness/curve.h"
#include "liveness/floor.h"
#include "report/assets.h"
#include "report/pack.h"
#include "report/step_record.h"
#include "trace/fields.h"

namespace spillway {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kStoragesListed = 100;

Json name_json(NameId id) { return id.valid() ? Json(id.index) : Json(); }

// Times fit 32 bits in units of `unit` nanoseconds: one, unless a step takes longer than two seconds.
struct Clock {
  explicit Clock(Nanos longest) : unit(std::max<std::int64_t>(1, longest.count / (std::int64_t{1} << 31) + 1)) {}
  [[nodiscard]] std::uint32_t operator()(Nanos time) const {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count / unit, 0, UINT32_MAX));
  }
  std::int64_t unit;
};

Nanos latest(const StepRecord& record) {
  Nanos end = record.duration;
  const auto reach = [&](const auto& marks) {
    for (const auto& mark : marks) end = std::max(end, mark.at + mark.took);
  };
  reach(record.ops);
  reach(record.copies);
  reach(record.recomputes);
  reach(record.stalls);
  return end;
}

template <class Marks, class Get>
auto column(const Marks& marks, Get get) {
  std::vector<decltype(get(marks[0]))> values;
  values.reserve(marks.size());
  for (const auto& mark : marks) values.push_back(get(mark));
  return values;
}

template <class Marks>
void add_times(Pack& pack, const std::string& prefix, const Marks& marks, const Clock& clock) {
  pack.add(prefix + "_t", column(marks, [&](const auto& mark) { return clock(mark.at); }));
  pack.add(prefix + "_d", column(marks, [&](const auto& mark) { return clock(mark.took); }));
}

void add_columns(Pack& pack, const StepRecord& record, const Clock& clock) {
  pack.add_rising("pt_t", column(record.points, [&](const auto& point) { return clock(point.at); }));
  pack.add("pt_who", column(record.points, [](const auto& point) { return point.who; }));
  pack.add("pt_what", column(record.points, [](const auto& point) { return point.what; }));
  std::vector<double> sizes = column(record.storages, [](const auto& one) { return double(one.size.count); });
  for (const Bytes transient : record.transients) sizes.push_back(static_cast<double>(transient.count));
  pack.add("size", sizes);
  pack.add("kind", column(record.storages, [](const auto& one) { return static_cast<std::uint8_t>(one.kind); }));
  add_times(pack, "op", record.ops, clock);
  pack.add("op_name", column(record.ops, [](const auto& op) { return op.name.index; }));
  pack.add("op_phase", column(record.ops, [](const auto& op) { return static_cast<std::uint8_t>(op.phase); }));
  pack.add_rising("op_index", column(record.ops, [](const auto& op) { return op.index.index; }));
  add_times(pack, "cp", record.copies, clock);
  pack.add("cp_who", column(record.copies, [](const auto& one) { return one.who; }));
  pack.add("cp_how", column(record.copies, [](const auto& one) { return static_cast<std::uint8_t>(one.copy); }));
  pack.add("cp_file", column(record.copies, [](const auto& one) { return static_cast<std::uint8_t>(one.file); }));
  pack.add("cp_name", column(record.copies, [](const auto& one) { return one.before.index; }));
  add_times(pack, "rc", record.recomputes, clock);
  pack.add("rc_who", column(record.recomputes, [](const auto& one) { return one.who; }));
  pack.add("rc_name", column(record.recomputes, [](const auto& one) { return one.op.index; }));
  pack.add("rc_for", column(record.recomputes, [](const auto& one) { return one.for_op.index; }));
  add_times(pack, "sl", record.stalls, clock);
  pack.add("sl_cause", column(record.stalls, [](const auto& one) { return static_cast<std::uint8_t>(one.cause); }));
  pack.add("sl_who", column(record.stalls, [](const auto& one) { return one.who; }));
  pack.add("sl_name", column(record.stalls, [](const auto& one) { return one.op.index; }));
}

// Those something was done to come first, then the large ones.
std::vector<std::size_t> storages_to_list(const StepRecord& record) {
  std::vector<std::size_t> order(record.storages.size());
  std::iota(order.begin(), order.end(), 0);
  const auto weight = [&](std::size_t at) {
    const StorageMark& storage = record.storages[at];
    const std::int64_t times = 1 + storage.out + storage.in + storage.dropped + storage.recomputed;
    return std::tuple(storage.size.count / 1024 * std::min<std::int64_t>(times, 1000), storage.size.count);
  };
  const std::size_t listed = std::min(order.size(), kStoragesListed);
  const auto heavier = [&](std::size_t a, std::size_t b) {
    return weight(a) != weight(b) ? weight(a) > weight(b) : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(listed), order.end(), heavier);
  order.resize(listed);
  return order;
}

Json storage_json(const StorageMark& storage, std::size_t who) {
  Json decisions = Json::array();
  for (const Decision& decision : storage.decisions)
    decisions.push_back({{"action", kWords<Action>[static_cast<std::size_t>(decision.action)]},
                         {"at", decision.at.valid() ? Json(decision.at.index) : Json()},
                         {"until", decision.until.valid() ? Json(decision.until.index) : Json()},
                         {"why", name_json(decision.reason)},
                         {"planned", decision.planned}});
  return {{"who", who},
          {"id", storage.id.index},
          {"made_by", name_json(storage.made_by)},
          {"out", storage.out},
          {"in", storage.in},
          {"dropped", storage.dropped},
          {"recomputed", storage.recomputed},
          {"waited", storage.waited.count},
          {"recompute", storage.recompute.count},
          {"decisions", std::move(decisions)}};
}

std::string pack_step(const StepRecord& record) {
  const Clock clock(latest(record));
  Pack pack;
  add_columns(pack, record, clock);
  Json head{{"unit", clock.unit}, {"duration", record.duration.count / clock.unit}, {"budget", record.budget.count}};
  head["storages"] = Json::array();
  for (const std::size_t who : storages_to_list(record))
    head["storages"].push_back(storage_json(record.storages[who], who));
  if (record.policy.valid())
    head["plan"] = {{"policy", name_json(record.policy)},
                    {"peak", record.plan.predicted_peak.count},
                    {"time", record.plan.predicted_time.count},
                    {"shortfall", record.plan.shortfall.count},
                    {"took", record.plan.took.count}};
  return pack.to_base64(head);
}

Json floor_json(const Trace& trace) {
  const auto step = find_steady_step(trace);
  if (!step) return {};
  const Liveness liveness(trace, *step);
  const Floor floor = find_floor(liveness);
  const LiveCurve curve = live_curve(liveness);
  return {{"bytes", floor.bytes.count},
          {"op", name_json(liveness.ops()[floor.op].name)},
          {"step", step->step.index},
          {"plain", curve.peak.count}};
}

Json facts_json(const Trace& trace) {
  std::vector<Fact> facts;  // the last word on a key holds
  for (const Event& event : trace.events) {
    const Fact* fact = std::get_if<Fact>(&event);
    if (fact == nullptr) continue;
    const auto known = std::ranges::find(facts, fact->key, &Fact::key);
    if (known == facts.end())
      facts.push_back(*fact);
    else
      known->value = fact->value;
  }
  Json json = Json::array();
  for (const Fact& fact : facts) json.push_back({fact.key, fact.value});
  return json;
}

std::string pack_run(const Trace& trace, const RunRecord& run, const PageOptions& options) {
  Pack pack;
  const auto add = [&](const char* name, auto get) { pack.add(name, column(run.lines, get)); };
  const auto add_nanos = [&](const char* name, auto get) {
    add(name, [&](const auto& line) { return static_cast<double>(get(line.sums).count); });
  };
  add("step", [](const auto& line) { return line.sums.step.index; });
  add("job", [](const auto& line) { return line.sums.job.index; });
  add("record", [](const auto& line) { return static_cast<std::uint32_t>(line.record); });
  add("whole", [](const auto& line) { return static_cast<std::uint8_t>(line.whole); });
  add("ops", [](const auto& line) { return line.sums.ops; });
  add("recomputed", [](const auto& line) { return line.sums.recomputed; });
  add_nanos("duration", [](const StepSummary& sums) { return sums.duration; });
  add_nanos("recompute", [](const StepSummary& sums) { return sums.recompute; });
  for (std::size_t cause = 0; cause < kStallCauseCount; ++cause)
    add_nanos(("stall" + std::to_string(cause)).c_str(), [&](const StepSummary& sums) { return sums.stall[cause]; });
  add_nanos("peak", [](const StepSummary& sums) { return sums.peak; });
  add_nanos("out", [](const StepSummary& sums) { return sums.moved_out; });
  add_nanos("in", [](const StepSummary& sums) { return sums.moved_in; });
  return pack.to_base64({{"title", options.title},
                         {"facts", facts_json(trace)},
                         {"names", trace.names},
                         {"kinds", kWords<StorageKind>},
                         {"phases", kWords<Phase>},
                         {"causes", kWords<StallCause>},
                         {"floor", floor_json(trace)},
                         {"truncated", trace.truncated}});
}

std::string blob(const std::string& id, const std::string& base64) {
  return "<script type=\"application/octet-stream\" id=\"" + id + "\">" + base64 + "</script>\n";
}

}  // namespace

std::string to_page(const Trace& trace, const PageOptions& options) {
  const RunRecord run = record_run(trace, options.most_cost);
  if (run.lines.empty()) throw InputError("the trace holds no step, so there is nothing to draw");
  std::string data = blob("run", pack_run(trace, run, options));
  for (std::size_t i = 0; i < run.records.size(); ++i)
    data += blob("record-" + std::to_string(i), pack_step(run.records[i]));
  std::string page(kPageHead);
  page += "<style>\n" + std::string(kPageStyle) + "</style>\n" + std::string(kPageBody) + data + "<script>\n";
  for (const std::string_view script : kPageScripts) page += script;
  return page + "</script>\n</body>\n</html>\n";
}

}  // namespace spillway
