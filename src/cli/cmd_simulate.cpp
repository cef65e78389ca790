#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "cli/again_text.h"
#include "cli/command.h"
#include "cli/step_input.h"
#include "sim/again.h"
#include "sim/card_times.h"
#include "sim/simulate.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

struct SimulateOptions {
  StepInput input;
  std::string card = "h200", from, policy = "hybrid", budget, trace;
  int steps = 12, rounds = SimOptions{}.plan_rounds;
  bool json = false, no_places = false, again = false;
};

struct Simulated {
  SimResult result;
  std::optional<Bytes> enough;  // where the budget was not
};

Simulated run(const SimulateOptions& options, const RecordedRun& run) {
  SimOptions sim{.card = read_card(options.card), .budget = {}, .policy = options.policy, .steps = options.steps, .plan_rounds = options.rounds};
  sim.budget = options.budget.empty() ? sim.card.memory : read_budget(options.budget, run);
  if (*sim.budget > sim.card.memory)
    throw InputError(fmt::format("a budget of {} is more than the {} has, {}", to_text(*sim.budget), sim.card.name, to_text(sim.card.memory)));
  sim.trace = options.trace;
  sim.places = !options.no_places;
  const Trace trace = options.from.empty() ? run.trace : scale_times(run.trace, read_card(options.from), sim.card);
  Simulated told{.result = simulate(trace, sim), .enough = {}};
  if (told.result.unfit) told.enough = find_enough(trace, sim, *told.result.unfit);
  return told;
}

double permille(Nanos time, Nanos plain) { return 1000.0 * static_cast<double>((time - plain).count) / static_cast<double>(plain.count); }

Json to_json(const SimStep& step) {
  return {{"time_ns", step.time.count},
          {"kernels_ns", step.kernels.count},
          {"rebuilds_ns", step.rebuilds.count},
          {"stall_fetch_ns", step.fetch.count},
          {"stall_room_ns", step.room.count},
          {"beside_copies_ns", step.beside_copies.count},
          {"host_ns", step.host.count},
          {"moved_out_bytes", step.moved_out.count},
          {"moved_in_bytes", step.moved_in.count},
          {"left_clean_bytes", step.left_clean.count},
          {"dropped_bytes", step.dropped.count},
          {"rebuilt_bytes", step.rebuilt.count},
          {"rebuilt_ops", step.rebuilt_ops},
          {"evictions", step.evictions},
          {"peak_live_bytes", step.peak_live.count},
          {"surprises", step.surprises},
          {"remaps", step.remaps},
          {"planned", step.planned},
          {"predicted_ns", step.planned ? Json(step.predicted.time.count) : Json()}};
}

Json to_json(const SimulateOptions& options, const Simulated& told) {
  const SimResult& result = told.result;
  const EngineStats& stats = result.stats;
  Json json{{"card", options.card},
            {"policy", options.policy},
            {"budget_bytes", stats.budget.count},
            {"fits", !result.unfit},
            {"shortfall_bytes", result.unfit ? result.unfit->lacks.count : 0},
            {"enough_bytes", told.enough ? Json(told.enough->count) : Json()},
            {"unfit_op", result.unfit ? Json(result.unfit->op) : Json()},
            {"peak_reserved_bytes", stats.peak_reserved.count},
            {"peak_live_bytes", stats.peak_live.count},
            {"plain_peak_bytes", result.plain_peak.count},
            {"floor_bytes", result.floor.count},
            {"plain_time_ns", result.plain_time.count},
            {"violations", stats.violations},
            {"steps", Json::array()}};
  for (const SimStep& step : result.steps) json["steps"].push_back(to_json(step));
  return json;
}

void print_steps(const SimResult& result) {
  fmt::print("{:>4}  {:>9}  {:>8}  {:>9}  {:>9}  {:>9}  {:>10}  {:>10}  {:>10}  {}\n", "step", "ms", "slower", "rebuild", "fetch", "room",
             "out MiB", "in MiB", "rebuilt", "plan");
  const auto ms = [](Nanos time) { return static_cast<double>(time.count) / 1e6; };
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes.count) / (1 << 20); };
  for (std::size_t i = 0; i < result.steps.size(); ++i) {
    const SimStep& step = result.steps[i];
    fmt::print("{:>4}  {:>9.3f}  {:>+7.1f}%  {:>9.3f}  {:>9.3f}  {:>9.3f}  {:>10.1f}  {:>10.1f}  {:>10.1f}  {}\n", i, ms(step.time),
               permille(step.time, result.plain_time) / 10, ms(step.rebuilds), ms(step.fetch), ms(step.room), mib(step.moved_out),
               mib(step.moved_in), mib(step.rebuilt), step.planned ? fmt::format("{:.3f} ms", ms(step.predicted.time)) : "-");
  }
}

void print_unfit(const Unfit& unfit, std::optional<Bytes> enough) {
  fmt::print("does not fit: {} lacks {}; ", unfit.op, to_text(unfit.lacks));
  if (enough) fmt::print("a budget of {} would do\n", to_text(*enough));
  else fmt::print("the card has too little memory for any budget that would do\n");
}

void print_result(const SimulateOptions& options, const Simulated& told) {
  const SimResult& result = told.result;
  const EngineStats& stats = result.stats;
  fmt::print("{} on {}, budget {}; plain: {} ops in {}, peak {}, floor {}\n", options.policy, options.card, to_text(stats.budget), result.ops,
             to_text(result.plain_time), to_text(result.plain_peak), to_text(result.floor));
  if (!result.steps.empty()) print_steps(result);
  fmt::print("peak {} taken from the card, {} live; {} times over budget\n", to_text(stats.peak_reserved), to_text(stats.peak_live),
             stats.violations);
  if (result.unfit) print_unfit(*result.unfit, told.enough);
}

void run_simulate(const SimulateOptions& options) {
  const RecordedRun recorded = read_run(options.input);
  const Simulated told = run(options, recorded);
  if (options.json) fmt::print("{}\n", to_json(options, told).dump(2));
  else print_result(options, told);
  if (!options.json) fmt::print("{}", tell_larger_step(recorded));
  if (!options.json && options.from.empty()) fmt::print("{}", tell_recorded_elsewhere(recorded.trace, read_card(options.card)));
  if (told.result.unfit) throw CLI::RuntimeError(kDoesNotFit);
}

// The run's own budget and policy, unless others are asked for.
void run_again(const SimulateOptions& options, bool own_policy) {
  AgainOptions wanted;
  if (!options.budget.empty()) wanted.budget = parse_bytes(options.budget);
  if (!own_policy) wanted.policy = options.policy;
  const AgainResult result = play_again(read_checked(options.input), wanted);
  if (options.json) fmt::print("{}\n", to_json(result).dump(2));
  else fmt::print("{}", to_text(result));
  if (result.difference || !result.problem.empty()) throw CLI::RuntimeError(kDiffers);
}

}  // namespace

void add_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand("simulate", "Run a recorded step again on a simulated card, under a budget and a policy");
  add_step_input(*command, options->input);
  command->add_option("--card", options->card, "A known card or a card file (default: h200)");
  command->add_option("--recorded-on", options->from, "The card the trace was recorded on: op times are scaled from it to --card");
  command->add_option("--budget", options->budget, "Bytes, 12GiB, or 60% of the trace's peak (default: the card's memory)");
  CLI::Option* policy = command->add_option("--policy", options->policy, "As in `spillway run` (default: hybrid)");
  command->add_option("--steps", options->steps, "How often the step is repeated (default: 12)")->check(CLI::Range(1, 1000));
  add_rounds(*command, options->rounds);
  command->add_option("--trace", options->trace, "Write a trace of the simulated run here (.spt)");
  command->add_flag("--no-places", options->no_places, "Let the pool place every block as it is asked for, in planned steps too");
  command->add_flag("--again", options->again,
                    "Play the whole recorded run again, as it was, and compare every eviction, return and recomputation: for runs inside a "
                    "budget on the CPU. --budget (in bytes) and --policy put others in place of the run's own");
  command->add_flag("--json", options->json, "Everything as JSON instead of a table");
  command->footer("Exit code: 0 it fits, or the run went the same way again; 2 bad input; 3 the budget cannot be met; 4 the run went another way");
  for (const char* other : {"--card", "--recorded-on", "--step", "--steps", "--rounds", "--trace", "--no-places"}) command->get_option("--again")->excludes(command->get_option(other));
  command->callback([options, policy] { options->again ? run_again(*options, policy->empty()) : run_simulate(*options); });
}

}  // namespace spillway
