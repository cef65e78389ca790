// What learning from a step and foreseeing one cost, per 1,000 ops; and the choice of coordinates, which is made rarely.
//
// `noisy`: a tenth of the ops make what no polynomial explains, each in its own way. Those columns are fitted anew every time.
#include "forecast/forecast.h"

#include <benchmark/benchmark.h>

#include "attention_steps.h"

namespace spillway {
namespace {

constexpr std::int64_t kOps = 1000, kSizes = 64, kJump = 64'000;

struct Learnt {
  Forecast forecast;
  std::vector<Liveness> steps;
  std::vector<std::uint64_t> keys;
  std::shared_ptr<const StepKind> kind;

  explicit Learnt(std::int64_t sizes = 16, std::int64_t jump = 0) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < sizes; ++i) lengths.push_back(30 + i * 97 % 302);
    const Trace trace = make_attention_steps(kOps, lengths, jump);
    for (const WholeStep& whole : find_whole_steps(trace)) {
      steps.emplace_back(trace, whole);
      keys = name_keys(trace, steps.back());
      if (steps.size() <= 16) kind = forecast.observe(steps.back(), keys);
    }
  }
};

void shape(benchmark::State& state) {
  const Learnt learnt;
  for (auto _ : state) benchmark::DoNotOptimize(shape_of(learnt.steps[0], learnt.keys));
}

// A power of two would choose coordinates again; between two of them there are many steps.
void learn_many(StepKind& kind, const Learnt& learnt, const StepShape& shape) {
  while (kind.observed() < 1200) kind.observe(learnt.steps[kind.observed() % 16], shape);
}

void update(benchmark::State& state, std::int64_t jump) {
  const Learnt learnt(16, jump);
  StepKind kind = *learnt.kind;
  const StepShape shape = shape_of(learnt.steps[0], learnt.keys);
  learn_many(kind, learnt, shape);
  std::size_t at = 0;
  for (auto _ : state) kind.observe(learnt.steps[at++ % 16], shape);
}

// Each is foretold first, and takes the place of another: of 64 sizes 24 are known.
void update_with_a_new_size(benchmark::State& state, std::int64_t jump) {
  const Learnt learnt(kSizes, jump);
  StepKind kind = *learnt.kind;
  const StepShape shape = shape_of(learnt.steps[0], learnt.keys);
  learn_many(kind, learnt, shape);
  std::size_t at = 16;
  for (auto _ : state) kind.observe(learnt.steps[at++ % learnt.steps.size()], shape);
}

void learn_sixteen_steps(benchmark::State& state, std::int64_t jump) {
  const Learnt learnt(16, jump);
  const StepShape shape = shape_of(learnt.steps[0], learnt.keys);
  for (auto _ : state) {
    StepKind kind(learnt.steps[0], shape);
    for (const Liveness& step : learnt.steps) kind.observe(step, shape);
  }
}

// As the engine has it: another thread may predict by the kind, so one that has learnt is a kind of its own.
void observe(benchmark::State& state, std::int64_t jump) {
  Learnt learnt(kSizes, jump);
  std::size_t at = 16;
  for (auto _ : state) benchmark::DoNotOptimize(learnt.forecast.observe(learnt.steps[at++ % learnt.steps.size()], learnt.keys));
}

void predict(benchmark::State& state, std::int64_t jump) {
  const Learnt learnt(17, jump);
  const Signature at = learnt.kind->signature(learnt.steps[16], learnt.kind->shape());
  for (auto _ : state) benchmark::DoNotOptimize(learnt.kind->predict(at));
}

void predict_and_apply(benchmark::State& state, std::int64_t jump) {
  const Learnt learnt(17, jump);
  const Signature at = learnt.kind->signature(learnt.steps[16], learnt.kind->shape());
  Liveness step = learnt.kind->model();
  for (auto _ : state) step.set_figures(learnt.kind->predict(at)->figures);
}

BENCHMARK(shape)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(update, exact, 0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(update, noisy, kJump)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(update_with_a_new_size, exact, 0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(update_with_a_new_size, noisy, kJump)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(learn_sixteen_steps, exact, 0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(learn_sixteen_steps, noisy, kJump)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(observe, exact, 0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(observe, noisy, kJump)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(predict, exact, 0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(predict, noisy, kJump)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(predict_and_apply, exact, 0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(predict_and_apply, noisy, kJump)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace spillway

BENCHMARK_MAIN();
