#include "cli/step_input.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "engine/options.h"
#include "liveness/liveness.h"
#include "trace/check.h"
#include "trace/reader.h"

namespace spillway {

namespace {

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const unsigned char letter : name)
    if (std::isalnum(letter)) letters.push_back(static_cast<char>(std::tolower(letter)));
  return letters;
}

WholeStep find_wanted_step(const Trace& trace, const StepInput& input) {
  const auto step = input.step ? find_step(trace, StepIndex{*input.step}) : find_steady_step(trace);
  if (step && step->ops > 0) return *step;
  if (!input.step) throw InputError(fmt::format("{}: no step in it has ops and is whole; does the script tell where steps end?", input.file));
  std::string whole;
  for (const WholeStep& known : find_whole_steps(trace))
    if (known.ops > 0) whole += fmt::format("{}{}", whole.empty() ? "" : ", ", known.step.index);
  throw InputError(fmt::format("{}: step {} has no ops in it or is not whole; {}", input.file, *input.step, whole.empty() ? "none is" : "there are " + whole));
}

}  // namespace

Card read_card(const std::string& word) { return std::filesystem::exists(word) ? load_card(word) : find_card(word); }

std::string recorded_on(const Trace& trace) {
  for (const Event& event : trace.events)
    if (const Fact* fact = std::get_if<Fact>(&event); fact != nullptr && fact->key == "device") return fact->value;
  return {};
}

// A driver says "NVIDIA H200" or "Tesla V100-SXM2-16GB" where a card here is called H200 or V100.
std::string tell_recorded_elsewhere(const Trace& trace, const Card& card) {
  const std::string device = recorded_on(trace);
  if (device.empty() || letters_of(device).find(letters_of(card.name)) != std::string::npos) return {};
  return fmt::format("recorded on {}: op times are from there, the link's figures those of {} (--card chooses)\n", device == "host" ? "the CPU" : device, card.name);
}

Bytes read_budget(const std::string& word, const RecordedRun& run) { return parse_bytes(word, {run.curve.peak, "the trace's peak"}); }

void add_step_input(CLI::App& command, StepInput& input) {
  command.add_option("trace", input.file, "A trace file (.spt)")->required();
  command.add_option("--step", input.step, "Which of its whole steps is taken (default: the last)");
}

CLI::Option* add_rounds(CLI::App& command, int& rounds) {
  const std::string told = fmt::format("Of search for better plans after the first, at most; a run has {} (default: {}, which is quicker)", EngineOptions{}.plan_rounds, rounds);
  return command.add_option("--rounds", rounds, told)->check(CLI::Range(0, 1000));
}

Trace read_checked(const StepInput& input) {
  Trace trace = read_trace(input.file);
  if (trace.truncated && trace.whole_until.count == 0) throw InputError(fmt::format("{} holds nothing: the run that began it wrote no event", input.file));
  if (trace.truncated)
    throw InputError(fmt::format("{} is cut short: what is whole ends at byte {}; record it again", input.file, trace.whole_until.count));
  if (const auto problems = check_trace(trace, 1); !problems.empty())
    throw InputError(fmt::format("{}: event {} is unlawful: {}", input.file, problems[0].event, problems[0].what));
  return trace;
}

RecordedRun read_run(const StepInput& input) {
  Trace trace = read_checked(input);
  const WholeStep step = find_wanted_step(trace, input);
  if (input.step) trace.events.erase(trace.events.begin() + static_cast<std::ptrdiff_t>(step.end), trace.events.end());  // whoever reads it takes the last one
  LiveCurve curve = live_curve(Liveness(trace, step));
  return {.trace = std::move(trace), .step = step, .curve = std::move(curve), .chosen = input.step.has_value()};
}

std::string tell_larger_step(const RecordedRun& run) {
  constexpr std::int64_t kNews = 100;  // a part of the peak: less is the same step once more
  if (run.chosen) return {};
  WholeStep largest = run.step;
  Bytes peak = run.curve.peak;
  for (const WholeStep& step : find_whole_steps(run.trace)) {
    if (step.ops == 0 || step.job != run.step.job) continue;
    if (const Bytes its = live_curve(Liveness(run.trace, step)).peak; its > peak) largest = step, peak = its;
  }
  if (peak <= run.curve.peak + run.curve.peak / kNews) return {};
  return fmt::format("this is step {}; step {} takes more, {} (--step {} chooses it)\n", run.step.step.index, largest.step.index, to_text(peak), largest.step.index);
}

}  // namespace spillway
