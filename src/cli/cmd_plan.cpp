#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/step_input.h"
#include "liveness/floor.h"
#include "liveness/liveness.h"
#include "plan/outlook.h"
#include "sim/card_times.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kParts = 10;             // of the peak, in the curve
constexpr std::size_t kMostPins = 5;   // storages named at the floor

struct PlanOptions {
  StepInput input;
  std::string card = "h200", policy = "hybrid", budget, choices;
  int tries = 0;
  bool json = false;
};

struct Pin {
  std::string what;
  Bytes size;
};

// The floor in words: the op, and the largest storages that must be there with it.
struct FloorStory {
  Floor floor;
  std::string op;
  Bytes transient;
  std::vector<Pin> pins;
};

std::string_view kind_name(StorageKind kind) {
  constexpr std::array<std::string_view, 7> kNames{"unknown", "parameter", "gradient", "activation", "optimizer state", "input", "workspace"};
  return kNames[static_cast<std::size_t>(kind)];
}

FloorStory tell_floor(const RecordedRun& run) {
  const Liveness step(run.trace, run.step);
  FloorStory story{.floor = find_floor(step), .op = {}, .transient = {}, .pins = {}};
  const LiveOp& op = step.ops()[story.floor.op];
  story.op = run.trace.name(op.name);
  story.transient = op.transient;
  std::vector<const LiveStorage*> touched;
  for (const Access& access : step.accesses_at(story.floor.op)) touched.push_back(&step.storages()[access.storage]);
  std::ranges::stable_sort(touched, std::greater{}, &LiveStorage::size);
  touched.resize(std::min(touched.size(), kMostPins));
  for (const LiveStorage* storage : touched) story.pins.push_back({fmt::format("{} {}", kind_name(storage->kind), storage->id.index), storage->size});
  return story;
}

double percent_slower(const Prediction& predicted) {
  return 100.0 * static_cast<double>((predicted.time - predicted.plain_time).count) / static_cast<double>(predicted.plain_time.count);
}

constexpr std::array<std::string_view, 3> kRemedies{"keep", "move", "drop"};

Json to_json(const ToldChoice& decision) {
  return {{"storage", decision.storage.index}, {"begin", decision.begin}, {"end", decision.end},
          {"remedy", kRemedies[static_cast<std::size_t>(decision.remedy)]}, {"fetch_at", decision.fetch_at}, {"again", decision.again}};
}

// What to_json() writes, one line or many.
std::vector<ToldChoice> read_choices(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw InputError(fmt::format("{}: cannot be opened", file));
  try {
    std::vector<ToldChoice> decisions;
    for (const Json& one : Json::parse(in)) {
      const auto remedy = std::ranges::find(kRemedies, one.at("remedy").get<std::string>());
      if (remedy == kRemedies.end()) throw InputError(fmt::format("{}: remedy {}: choose keep, move or drop", file, one.at("remedy").dump()));
      decisions.push_back({StorageId{one.at("storage").get<std::uint32_t>()}, one.at("begin"), one.at("end"),
                           static_cast<Remedy>(remedy - kRemedies.begin()), one.at("fetch_at"), one.value("again", false)});
    }
    return decisions;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: a list of objects with storage, begin, end, remedy and fetch_at is expected: {}", file, error.what()));
  }
}

Json to_json(const OutlookPoint& point) {
  const Prediction& told = point.predicted;
  Json decisions = Json::array();
  for (const ToldChoice& decision : point.decisions) decisions.push_back(to_json(decision));
  return {{"budget_bytes", point.budget.count}, {"peak_bytes", told.peak.count},   {"shortfall_bytes", told.over.count},
          {"time_ns", told.time.count},         {"stall_ns", told.stall.count},     {"rebuild_ns", told.rebuild.count},
          {"moved_bytes", told.moved.count},    {"rebuilt_bytes", told.rebuilt.count}, {"choices", std::move(decisions)}};
}

Json to_json(const PlanOptions& options, const RecordedRun& run, const FloorStory& floor, const std::vector<OutlookPoint>& points) {
  const std::string device = recorded_on(run.trace);
  Json json{{"card", options.card},
            {"recorded_on", device.empty() ? Json() : Json(device)},
            {"policy", options.policy},
            {"peak_bytes", run.curve.peak.count},
            {"plain_time_ns", points[0].predicted.plain_time.count},
            {"floor", {{"bytes", floor.floor.bytes.count}, {"op", floor.op}, {"cannot_leave_bytes", floor.floor.stuck.count},
                       {"transient_bytes", floor.transient.count}, {"largest", Json::array()}}},
            {"budgets", Json::array()}};
  for (const Pin& pin : floor.pins) json["floor"]["largest"].push_back({{"storage", pin.what}, {"bytes", pin.size.count}});
  for (const OutlookPoint& point : points) json["budgets"].push_back(to_json(point));
  return json;
}

// One for the whole table, so that its columns can be compared.
struct TableUnit {
  std::string_view name;
  Bytes size;
};

TableUnit unit_for(Bytes peak) {
  if (peak >= 1_GiB) return {"GiB", 1_GiB};
  return peak >= 1_MiB ? TableUnit{"MiB", 1_MiB} : TableUnit{"KiB", 1_KiB};
}

void print_point(const OutlookPoint& point, Bytes peak, Bytes floor, const TableUnit& unit) {
  const Prediction& told = point.predicted;
  const auto in_unit = [&](Bytes bytes) { return static_cast<double>(bytes.count) / static_cast<double>(unit.size.count); };
  const auto ms = [](Nanos time) { return static_cast<double>(time.count) / 1e6; };
  fmt::print("{:>9.3f}  {:>4.0f}%  {:>9.3f}  {:>+7.1f}%  {:>9.3f}  {:>9.3f}  {:>9.3f}  {:>9.3f}  {}\n", in_unit(point.budget),
             100.0 * static_cast<double>(point.budget.count) / static_cast<double>(peak.count), ms(told.time), percent_slower(told),
             in_unit(told.moved), in_unit(told.rebuilt), ms(told.rebuild), ms(told.stall),
             told.over > 0_B ? fmt::format("lacks {}{}", to_text(told.over), point.budget < floor ? ", below the floor" : "") : "fits");
}

void print(const PlanOptions& options, const RecordedRun& run, const FloorStory& floor, const std::vector<OutlookPoint>& points) {
  fmt::print("{} on {}: peak {}, {} plain\n", options.policy, options.card, to_text(run.curve.peak), to_text(points[0].predicted.plain_time));
  const TableUnit unit = unit_for(run.curve.peak);
  fmt::print("{:>9}  {:>5}  {:>9}  {:>8}  {:>9}  {:>9}  {:>9}  {:>9}\n", unit.name, "peak", "ms", "slower", fmt::format("moved {}", unit.name), "rebuilt",
             "rebuild", "stall");
  for (const OutlookPoint& point : points) print_point(point, run.curve.peak, floor.floor.bytes, unit);
  const auto is_unplanned = [&](const OutlookPoint& point) { return point.predicted.over > 0_B && point.budget >= floor.floor.bytes; };
  if (std::ranges::any_of(points, is_unplanned)) fmt::print("lacks: no plan was found that fits; a run reacts instead, and above the floor it may fit all the same\n");
  fmt::print("floor {}: {} needs {} at once, {} cannot leave beside it\n", to_text(floor.floor.bytes), floor.op, to_text(floor.floor.working_set),
             to_text(floor.floor.stuck));
  for (const Pin& pin : floor.pins) fmt::print("  {:>10}  {}\n", to_text(pin.size), pin.what);
  fmt::print("{}{}", tell_larger_step(run), tell_recorded_elsewhere(run.trace, read_card(options.card)));
}

void run_plan(const PlanOptions& options) {
  const PlanPolicy* policy = find_plan_policy(options.policy);
  if (policy == nullptr) {
    std::string names;
    for (const PlanPolicy& known : plan_policies()) names += (names.empty() ? "" : ", ") + std::string(known.name);
    throw InputError(fmt::format("policy '{}' does not plan: known are {}", options.policy, names));
  }
  const Card card = read_card(options.card);
  const RecordedRun run = read_run(options.input);
  const OutlookRequest request{.trace = run.trace, .policy = *policy, .costs = costs_of(card), .tries = options.tries};
  std::vector<OutlookPoint> points;
  if (!options.choices.empty()) points.push_back(judge_at(request, read_budget(options.budget, run), read_choices(options.choices)));
  else if (options.budget.empty()) points = look_down(request, kParts);
  else points.push_back(look_at(request, read_budget(options.budget, run)));
  const FloorStory floor = tell_floor(run);
  if (options.json) fmt::print("{}\n", to_json(options, run, floor, points).dump(2));
  else print(options, run, floor, points);
  if (!options.budget.empty() && points[0].predicted.over > 0_B) throw CLI::RuntimeError(kDoesNotFit);
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Say what a recorded step would take: slowdown over budget, the floor, and what pins it");
  add_step_input(*command, options->input);
  command->add_option("--budget", options->budget, "One budget instead of the curve: bytes, 12GiB, or 60% of the trace's peak");
  command->add_option("--card", options->card, "A known card or a card file, for the link's rates (default: h200)");
  command->add_option("--policy", options->policy, "Who plans (default: hybrid)");
  command->add_option("--tries", options->tries, "Changes tried afterwards, as a run does between its steps (default: 0)")->check(CLI::NonNegativeNumber);
  command->add_option("--choices", options->choices, "Judge these instead of planning: a file with the list that --json tells as choices")->needs("--budget");
  command->add_flag("--json", options->json, "Everything as JSON instead of a table");
  command->callback([options] { run_plan(*options); });
}

}  // namespace spillway
