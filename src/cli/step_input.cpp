#include "cli/step_input.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "liveness/liveness.h"
#include "trace/check.h"
#include "trace/reader.h"

namespace spillway {

Card read_card(const std::string& word) { return std::filesystem::exists(word) ? load_card(word) : find_card(word); }

Bytes read_budget(const std::string& word, const RecordedRun& run) { return parse_bytes(word, {run.curve.peak, "the trace's peak"}); }

void add_step_input(CLI::App& command, StepInput& input) {
  command.add_option("trace", input.file, "A trace file (.spt); its last whole step is taken")->required();
}

RecordedRun read_run(const StepInput& input) {
  Trace trace = read_trace(input.file);
  if (trace.truncated)
    throw InputError(fmt::format("{} is cut short: what is whole ends at byte {}; record it again", input.file, trace.whole_until.count));
  if (const auto problems = check_trace(trace, 1); !problems.empty())
    throw InputError(fmt::format("{}: event {} is unlawful: {}", input.file, problems[0].event, problems[0].what));
  const auto step = find_steady_step(trace);
  if (!step) throw InputError(fmt::format("{}: no step in it has ops and is whole; does the script tell where steps end?", input.file));
  LiveCurve curve = live_curve(Liveness(trace, *step));
  return {.trace = std::move(trace), .step = *step, .curve = std::move(curve)};
}

}  // namespace spillway
