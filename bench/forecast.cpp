// What learning from a step and foreseeing one cost, per 1,000 ops; and the choice of coordinates, which is made rarely.
#include "forecast/forecast.h"

#include <benchmark/benchmark.h>

#include "support/step_maker.h"

namespace spillway {
namespace {

using testing::StepMaker;

constexpr std::int64_t kOps = 1000;

// A model with attention, in layers of five ops forward and five backward.
Trace make_run(std::span<const std::int64_t> lengths) {
  StepMaker steps;
  steps.birth("weights", 4_MiB, StorageKind::parameter);
  for (const std::int64_t length : lengths) {
    steps.begin();
    steps.birth("ids", Bytes{8 * 16 * length}, StorageKind::input);
    std::string last = "ids";
    const auto name = [](const char* what, std::int64_t layer) { return what + std::to_string(layer); };
    for (std::int64_t layer = 0; layer < kOps / 10; ++layer) {
      for (const char* what : {"query", "key", "value"}) steps.make(name(what, layer), Bytes{4096 * length}, {last, "weights"});
      steps.make(name("scores", layer), Bytes{768 * length * length}, {name("query", layer), name("key", layer)});
      steps.make(name("hidden", layer), Bytes{4096 * length}, {name("scores", layer), name("value", layer)});
      last = name("hidden", layer);
    }
    for (std::int64_t layer = kOps / 10; layer-- > 0;) {
      for (const char* what : {"hidden", "scores", "value", "key", "query"}) {
        steps.op("back", {.in = {name(what, layer), "weights"}, .workspace = Bytes{512 * length}});
        steps.death(name(what, layer));
      }
    }
    steps.death("ids");
    steps.end();
  }
  return steps.trace();
}

struct Learnt {
  Forecast forecast;
  std::vector<Liveness> steps;
  std::vector<std::uint64_t> keys;
  std::shared_ptr<const StepKind> kind;

  Learnt() {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < 16; ++i) lengths.push_back(30 + i * 97 % 302);
    const Trace trace = make_run(lengths);
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
