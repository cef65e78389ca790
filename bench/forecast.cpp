// What learning from a step and foreseeing one cost, per 1,000 ops; and the choice of coordinates, which is made rarely.
#include "forecast/forecast.h"

#include <benchmark/benchmark.h>

#include "attention_steps.h"

namespace spillway {
namespace {

constexpr std::int64_t kOps = 1000;

struct Learnt {
  Forecast forecast;
  std::vector<Liveness> steps;
  std::vector<std::uint64_t> keys;
  std::shared_ptr<const StepKind> kind;

  Learnt() {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < 16; ++i) lengths.push_back(30 + i * 97 % 302);
    const Trace trace = make_attention_steps(kOps, lengths);
    for (const WholeStep& whole : find_whole_steps(trace)) {
      steps.emplace_back(trace, whole);
      keys = name_keys(trace, steps.back());
      kind = forecast.observe(steps.back(), keys);
    }
  }
};

void shape(benchmark::State& state) {
  const Learnt learnt;
  for (auto _ : state) benchmark::DoNotOptimize(shape_of(learnt.steps[0], learnt.keys));
}

void update(benchmark::State& state) {
  const Learnt learnt;
  StepKind kind = *learnt.kind;
  const StepShape shape = shape_of(learnt.steps[0], learnt.keys);
  // A power of two would choose coordinates again; between two of them there are many steps.
  for (int i = 0; i < 1200; ++i) kind.observe(learnt.steps[static_cast<std::size_t>(i) % 16], shape);
  std::size_t at = 0;
  for (auto _ : state) kind.observe(learnt.steps[at++ % 16], shape);
}

void learn_sixteen_steps(benchmark::State& state) {
  const Learnt learnt;
  const StepShape shape = shape_of(learnt.steps[0], learnt.keys);
  for (auto _ : state) {
    StepKind kind(learnt.steps[0], shape);
    for (const Liveness& step : learnt.steps) kind.observe(step, shape);
  }
}

void predict(benchmark::State& state) {
  const Learnt learnt;
  const Signature at = learnt.kind->signature(learnt.steps[3], learnt.kind->shape());
  for (auto _ : state) benchmark::DoNotOptimize(learnt.kind->predict(at));
}

void predict_and_apply(benchmark::State& state) {
  const Learnt learnt;
  const Signature at = learnt.kind->signature(learnt.steps[3], learnt.kind->shape());
  Liveness step = learnt.kind->model();
  for (auto _ : state) step.set_figures(learnt.kind->predict(at)->figures);
}

BENCHMARK(shape)->Unit(benchmark::kMicrosecond);
BENCHMARK(update)->Unit(benchmark::kMicrosecond);
BENCHMARK(learn_sixteen_steps)->Unit(benchmark::kMicrosecond);
BENCHMARK(predict)->Unit(benchmark::kMicrosecond);
BENCHMARK(predict_and_apply)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace spillway

BENCHMARK_MAIN();
