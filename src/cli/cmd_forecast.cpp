#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "forecast/rehearsal.h"
#include "trace/reader.h"

namespace spillway {
namespace {

constexpr std::size_t kLearnt = 10;  // different sizes of a kind, after which its errors count in the summary

double percent(double told, double real) { return real == 0 ? 0 : 100 * (told / real - 1); }

void print_step(const RehearsedStep& step) {
  fmt::print("{:>5} {:>5} {:>6} {:>8} {:>14}", step.step.index, step.kind, step.ops, step.samples, step.peak.count);
  if (step.told) {
    fmt::print(" {:>14} {:>8.3f} % {:>14} {:>8.1f} %", step.told->peak.count, percent(static_cast<double>(step.told->peak.count), static_cast<double>(step.peak.count)),
               step.told->margin.count, percent(static_cast<double>(step.told->time.count), static_cast<double>(step.time.count)));
  } else {
    fmt::print(" {:>14} {:>10} {:>14} {:>10}", "-", "-", "-", "-");
  }
  fmt::print("  {}\n", fmt::join(step.signature, " x "));
}

void print_summary(const std::vector<RehearsedStep>& steps) {
  std::size_t told = 0, learnt = 0, kinds = 0;
  double sum = 0, worst = 0, time = 0;
  for (const RehearsedStep& step : steps) {
    kinds = std::max(kinds, step.kind + 1);
    if (!step.told) continue;
    ++told;
    if (step.samples < kLearnt) continue;
    ++learnt;
    const double error = std::abs(percent(static_cast<double>(step.told->peak.count), static_cast<double>(step.peak.count)));
    sum += error, worst = std::max(worst, error);
    time += std::abs(percent(static_cast<double>(step.told->time.count), static_cast<double>(step.time.count)));
  }
  fmt::print("\nsteps {}, kinds {}, told beforehand {}\n", steps.size(), kinds, told);
  if (learnt == 0) return fmt::print("no step was told after {} different sizes had been seen: record more steps (--trace-steps) to see how exact that is\n", kLearnt);
  const auto count = static_cast<double>(learnt);
  fmt::print("after {} sizes: {} steps, peak error mean {:.3f} %, worst {:.3f} %, time error mean {:.1f} %\n", kLearnt, learnt, sum / count, worst, time / count);
}

void run_forecast(const std::string& file) {
  const Trace trace = read_trace(file);
  if (trace.truncated) fmt::print(stderr, "spillway: {} ends in the middle of a block; its whole steps are looked at\n", file);
  const std::vector<RehearsedStep> steps = rehearse(trace);
  if (steps.empty()) throw InputError(file + ": holds no whole step");
  fmt::print("{:>5} {:>5} {:>6} {:>8} {:>14} {:>14} {:>10} {:>14} {:>10}  {}\n", "step", "kind", "ops", "sizes", "peak", "told", "error", "margin", "time", "signature");
  for (const RehearsedStep& step : steps) print_step(step);
  print_summary(steps);
}

}  // namespace

void add_forecast(CLI::App& app) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("forecast", "Say how well each step of a run could be foreseen from those before it");
  command->add_option("trace", *file, "The trace of a run (.spt)")->required();
  command->callback([file] { run_forecast(*file); });
}

}  // namespace spillway
