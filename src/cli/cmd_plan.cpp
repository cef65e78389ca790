#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/side_by_side.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/step_input.h"
#include "liveness/floor.h"
#include "liveness/liveness.h"
#include "plan/outlook.h"
#include "sim/card_times.h"
#include "sim/simulate.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kParts = 10;             // of the peak, in the curve
constexpr std::size_t kMostPins = 5;   // storages named at the floor

struct PlanOptions {
  StepInput input;
  std::string card = "h200", policy = "hybrid", budget, choices;
  int tries = 0, rounds = SimOptions{}.plan_rounds;
  bool by_bytes = false, runs = false, json = false;
};

// A budget, and what a run in it comes to on the simulated card.
struct PlayedPoint {
  OutlookPoint outlook;
  std::optional<SimResult> run = {};  // none: it was not played
  bool beyond_card = false;           // and cannot be
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

double percent_slower(Nanos time, Nanos plain) { return 100.0 * static_cast<double>((time - plain).count) / static_cast<double>(plain.count); }

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

Json to_json(const SimResult& run) {
  if (run.unfit) return {{"fits", false}, {"time_ns", Json()}, {"planned", false}, {"shortfall_bytes", run.unfit->lacks.count}, {"unfit_op", run.unfit->op}};
  const SimStep& step = run.steps.back();
  return {{"fits", true}, {"time_ns", step.time.count}, {"planned", step.planned}, {"shortfall_bytes", 0}, {"unfit_op", Json()}};
}

Json to_json(const PlayedPoint& played) {
  const OutlookPoint& point = played.outlook;
  const Prediction& told = point.predicted;
  Json decisions = Json::array();
  for (const ToldChoice& decision : point.decisions) decisions.push_back(to_json(decision));
  return {{"budget_bytes", point.budget.count}, {"peak_bytes", told.peak.count},   {"shortfall_bytes", told.over.count},
          {"time_ns", told.time.count},         {"stall_ns", told.stall.count},     {"rebuild_ns", told.rebuild.count},
          {"moved_bytes", told.moved.count},    {"rebuilt_bytes", told.rebuilt.count}, {"choices", std::move(decisions)},
          {"run", played.run ? to_json(*played.run) : Json()}};
}

Json to_json(const PlanOptions& options, const RecordedRun& run, const FloorStory& floor, const std::vector<PlayedPoint>& points) {
  const std::string device = recorded_on(run.trace);
  Json json{{"card", options.card},
            {"recorded_on", device.empty() ? Json() : Json(device)},
            {"policy", options.policy},
            {"peak_bytes", run.curve.peak.count},
            {"plain_time_ns", points[0].outlook.predicted.plain_time.count},
            {"floor", {{"bytes", floor.floor.bytes.count}, {"op", floor.op}, {"cannot_leave_bytes", floor.floor.stuck.count},
                       {"transient_bytes", floor.transient.count}, {"largest", Json::array()}}},
            {"budgets", Json::array()}};
  for (const Pin& pin : floor.pins) json["floor"]["largest"].push_back({{"storage", pin.what}, {"bytes", pin.size.count}});
  for (const PlayedPoint& point : points) json["budgets"].push_back(to_json(point));
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

std::string tell_run(const PlayedPoint& point) {
  if (point.beyond_card) return "; more than the card has";
  if (!point.run) return {};
  const SimResult& run = *point.run;
  if (run.unfit) return fmt::format("; a run does not fit, {} lacks {}", run.unfit->op, to_text(run.unfit->lacks));
  const SimStep& step = run.steps.back();
  return fmt::format("; a run {:+.1f}%{}", percent_slower(step.time, run.plain_time), step.planned ? "" : ", by reaction");
}

void print_point(const PlayedPoint& played, Bytes peak, Bytes floor, const TableUnit& unit) {
  const OutlookPoint& point = played.outlook;
  const Prediction& told = point.predicted;
  const auto in_unit = [&](Bytes bytes) { return static_cast<double>(bytes.count) / static_cast<double>(unit.size.count); };
  const auto ms = [](Nanos time) { return static_cast<double>(time.count) / 1e6; };
  fmt::print("{:>9.3f}  {:>4.0f}%  {:>9.3f}  {:>+7.1f}%  {:>9.3f}  {:>9.3f}  {:>9.3f}  {:>9.3f}  {}{}\n", in_unit(point.budget),
             100.0 * static_cast<double>(point.budget.count) / static_cast<double>(peak.count), ms(told.time), percent_slower(told.time, told.plain_time),
             in_unit(told.moved), in_unit(told.rebuilt), ms(told.rebuild), ms(told.stall),
             told.over > 0_B ? fmt::format("lacks {}{}", to_text(told.over), point.budget < floor ? ", below the floor" : "") : "fits", tell_run(played));
}

// What the table does not say of runs.
void print_notes(const PlanOptions& options, const std::vector<PlayedPoint>& points, Bytes floor) {
  const bool played = std::ranges::any_of(points, [](const PlayedPoint& point) { return point.run.has_value(); });
  if (played) fmt::print("a run: as `spillway simulate` plays it, with places for its blocks; the rest is by bytes alone\n");
  else if (!options.by_bytes) fmt::print("by bytes alone: the blocks of a run need places, too, which takes longer the tighter it is; --runs plays a run in each budget, --budget in one\n");
  const auto is_unplanned = [&](const PlayedPoint& point) { return point.outlook.predicted.over > 0_B && point.outlook.budget >= floor; };
  if (std::ranges::none_of(points, is_unplanned)) return;
  fmt::print("lacks: no plan was found that fits. A run goes by the plan and reacts where that lacks: above the floor it trains, but for the last\n"
             "  few MiB, in a time of its own, which may be longer or shorter than the plan's\n");
}

void print(const PlanOptions& options, const RecordedRun& run, const FloorStory& floor, const std::vector<PlayedPoint>& points) {
  fmt::print("{} on {}, by bytes alone: peak {}, {} plain\n", options.policy, options.card, to_text(run.curve.peak),
             to_text(points[0].outlook.predicted.plain_time));
  const TableUnit unit = unit_for(run.curve.peak);
  fmt::print("{:>9}  {:>5}  {:>9}  {:>8}  {:>9}  {:>9}  {:>9}  {:>9}\n", unit.name, "peak", "ms", "slower", fmt::format("moved {}", unit.name), "rebuilt",
             "rebuild", "stall");
  for (const PlayedPoint& point : points) print_point(point, run.curve.peak, floor.floor.bytes, unit);
  print_notes(options, points, floor.floor.bytes);
  fmt::print("floor {}: {} needs {} at once, {} cannot leave beside it\n", to_text(floor.floor.bytes), floor.op, to_text(floor.floor.working_set),
             to_text(floor.floor.stuck));
  for (const Pin& pin : floor.pins) fmt::print("  {:>10}  {}\n", to_text(pin.size), pin.what);
  fmt::print("{}{}", tell_larger_step(run), tell_recorded_elsewhere(run.trace, read_card(options.card)));
}

std::vector<OutlookPoint> look(const PlanOptions& options, const RecordedRun& run, const Card& card, const PlanPolicy& policy) {
  const OutlookRequest request{.trace = run.trace, .policy = policy, .costs = costs_of(card), .tries = options.tries};
  if (options.budget.empty()) return look_down(request, kParts);
  const Bytes budget = read_budget(options.budget, run);
  return {options.choices.empty() ? look_at(request, budget) : judge_at(request, budget, read_choices(options.choices))};
}

// As `spillway simulate` would. The last take longest, so they come first.
void play_runs(const PlanOptions& options, const RecordedRun& run, const Card& card, std::vector<PlayedPoint>& points) {
  side_by_side(points.size(), std::thread::hardware_concurrency(), [&](std::size_t turn) {
    PlayedPoint& point = points[points.size() - 1 - turn];
    point.beyond_card = point.outlook.budget > card.memory;
    if (!point.beyond_card) point.run = simulate(run.trace, {.card = card, .budget = point.outlook.budget, .policy = options.policy, .plan_rounds = options.rounds});
  });
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
  std::vector<PlayedPoint> points;
  for (OutlookPoint& point : look(options, run, card, *policy)) points.push_back({std::move(point)});
  if (options.runs || (!options.budget.empty() && !options.by_bytes)) play_runs(options, run, card, points);
  const FloorStory floor = tell_floor(run);
  if (options.json) fmt::print("{}\n", to_json(options, run, floor, points).dump(2));
  else print(options, run, floor, points);
  if (!options.budget.empty() && points[0].outlook.predicted.over > 0_B) throw CLI::RuntimeError(kDoesNotFit);
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Say what a recorded step would take: slowdown over budget, the floor, and what pins it");
  add_step_input(*command, options->input);
  command->add_option("--budget", options->budget, "One budget instead of the curve: bytes, 12GiB, or 60% of the trace's peak");
  command->add_option("--card", options->card, "A known card or a card file, for the link's rates (default: h200)");
  command->add_option("--policy", options->policy, "Who plans (default: hybrid)");
  CLI::Option* by_bytes = command->add_flag("--by-bytes", options->by_bytes, "With --budget: play no run, count bytes alone");
  CLI::Option* tries = command->add_option("--tries", options->tries, "Changes tried afterwards, by bytes alone (default: 0)");
  tries->check(CLI::NonNegativeNumber);
  command->add_option("--choices", options->choices, "Judge these instead of planning, by bytes alone: a file with the list that --json tells as choices")->needs("--budget");
  command->add_flag("--runs", options->runs, "Play a run in each budget on the simulated card, not only in that of --budget: takes some times as long")->excludes(by_bytes);
  add_rounds(*command, options->rounds);
  command->add_flag("--json", options->json, "Everything as JSON instead of a table");
  command->callback([options, tries] {
    options->by_bytes = options->by_bytes || !tries->empty() || !options->choices.empty();
    run_plan(*options);
  });
}

}  // namespace spillway
