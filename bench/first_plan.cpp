// How soon is there a plan, and what does going on gain? For recorded steps and one of 5,000 ops, at shares of their peak: when
// the first script is there and what slowdown it foretells, and the same of the last, with nobody else on the machine. The aim:
// a first one within 50 ms for 5,000 ops.
//
//   bench_first_plan [trace.json.gz | trace.spt | deep ...]     none: those in traces/ and the deep one
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/planner.h"
#include "liveness/curve.h"
#include "liveness/pieces.h"
#include "plan/outlook.h"
#include "support/deep_step.h"
#include "trace/reader.h"
#include "trace/recorded_step.h"

namespace {

using namespace spillway;

constexpr std::int64_t kOps = 5000;
// An H200: 55 GB/s each way, and what kernels lose beside copies.
constexpr Costs kCosts{.out_nanos_per_byte = 1 / 55.0, .in_nanos_per_byte = 1 / 55.0, .out_price = 0.00016, .in_price = 0.00063,
                       .per_copy = Nanos{10'000}, .per_replay = Nanos{5'000}};

// The trace's steady step as an engine would have recorded it.
std::shared_ptr<const RecordedSteps> as_recorded(Trace trace) {
  RecordedSteps steps;
  const StepIndex steady = find_steady_step(trace)->step;
  std::uint64_t ops = 0;
  const auto renumber = [&](auto& event) {
    if constexpr (requires { event.step; }) event.step = event.step == steady ? StepRecorder::kStep : StepIndex{0};
    if constexpr (requires { event.lean; }) {
      if (event.step != StepRecorder::kStep) return;
      steps.keys.push_back(ops);
      steps.shapes.push_back(ops++);
      steps.lean.push_back(event.lean);
      steps.timed.push_back(false);
    }
  };
  for (Event& event : trace.events) std::visit(renumber, event);
  steps.trace = std::move(trace);
  return std::make_shared<const RecordedSteps>(std::move(steps));
}

double percent(const Prediction& predicted) {
  return 100 * (static_cast<double>(predicted.time.count) / static_cast<double>(predicted.plain_time.count) - 1);
}

std::string told(const Prediction& predicted) {
  if (predicted.over > 0_B) return fmt::format("lacks {} MiB", predicted.over.count >> 20);
  return fmt::format("{:+.1f} %", percent(predicted));
}

void look_at(const std::string& name, const Trace& whole) {
  const Bytes peak = live_curve(Liveness(whole, *find_steady_step(whole))).peak;
  for (const int share : {80, 60, 45}) {
    const Bytes budget = peak * share / 100;
    const auto steps = as_recorded(cut_lists(whole, budget / kListPieces));
    Planner planner;
    const auto begin = std::chrono::steady_clock::now();
    planner.start({.steps = steps, .foreseen = nullptr, .costs = kCosts, .budget = budget * 98 / 100, .ground = {.from = 2_MiB, .limit = budget},
                   .policy = find_plan_policy("hybrid"), .rounds = EngineOptions{}.plan_rounds});
    planner.wait();
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
    const auto first = planner.first();
    const auto last = planner.take();
    if (!first || !last) continue;
    fmt::print("| {} | {} | {} % | {:.0f} ms | {} | {:.1f} s | {} | {:.1f} s |\n", name, steps->keys.size(), share, static_cast<double>(first->took.count) / 1e6,
               told(first->predicted), static_cast<double>(last->took().count) / 1e9, told(last->predicted()), all.count());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string> paths(words + 1, words + count);
  if (paths.empty()) {
    for (const auto& entry : std::filesystem::directory_iterator(SPILLWAY_SOURCE_DIR "/traces")) {
      if (entry.path().extension() == ".gz") paths.push_back(entry.path());
    }
    std::ranges::sort(paths);
    paths.emplace_back("deep");
  }
  fmt::print("| step | ops | budget | first after | foretells | last after | foretells | search ends |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const std::string& path : paths) {
    const std::string name = std::filesystem::path(path).filename();
    if (path == "deep") look_at("deep transformer", make_deep_step(kOps));
    else look_at(name.substr(0, name.find('.')), path.ends_with(".spt") ? read_trace(path) : import_recorded_step(path));
  }
}
