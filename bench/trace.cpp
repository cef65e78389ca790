// What recording costs: nanoseconds per event for the training thread, into memory that is thrown away, into a file,
// and bounded as in a long run; and what reading costs.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "trace/reader.h"
#include "trace/recorded_step.h"
#include "trace/writer.h"

namespace spillway {
namespace {

class NullSink final : public Sink {
 public:
  bool append(std::span<const std::uint8_t> bytes) override {
    benchmark::DoNotOptimize(bytes.data());
    return true;
  }
  bool truncate(std::uint64_t) override { return true; }
  std::string problem() const override { return {}; }
};

// Shows a counter of things done per iteration as the time of one.
const auto kPerThing = benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert;

std::string scratch_file() { return "/tmp/spillway_bench_" + std::to_string(getpid()) + ".spt"; }

// A typical op: three inputs, one output, ids and times as a convolution in the middle of a step has them.
class TypicalOps {
 public:
  explicit TypicalOps(TraceWriter& writer) : writer_(writer) {
    for (const char* name : {"aten.convolution.default", "aten.cudnn_batch_norm.default", "aten.relu_.default"})
      names_.push_back(writer.intern(name));
  }
  void write() {
    const StorageId inputs[] = {{next_ - 1}, {next_ % 300}, {next_ % 300 + 1}};
    const StorageId output{next_};
    writer_.write(OpView{.index = OpIndex{next_},
                         .name = names_[next_ % 3],
                         .phase = Phase::forward,
                         .job = {0},
                         .step = {0},
                         .stream = {0},
                         .start = {next_ * 60'000LL},
                         .duration = {40'000 + next_ % 9000},
                         .transient = 51'380'224_B,
                         .workspace = 0_B,
                         .replayable = true,
                         .why_not = {},
                         .inputs = inputs,
                         .outputs = {&output, 1}});
    ++next_;
  }
  [[nodiscard]] std::uint32_t next() const { return next_; }

 private:
  TraceWriter& writer_;
  std::vector<NameId> names_;
  std::uint32_t next_ = 1;
};

void write_op(benchmark::State& state) {
  TraceWriter writer(std::make_unique<NullSink>(), WriterOptions::keep_all());
  TypicalOps ops(writer);
  for (auto _ : state) ops.write();
}
BENCHMARK(write_op);

void write_op_to_file(benchmark::State& state) {
  TraceWriter writer(scratch_file(), WriterOptions::keep_all());
  TypicalOps ops(writer);
  for (auto _ : state) ops.write();
  writer.close();
  unlink(scratch_file().c_str());
}
BENCHMARK(write_op_to_file);

// A whole op of a long run: birth, op, death, in steps of 1,000, most of which become a summary; into a file.
void write_op_and_lives_bounded(benchmark::State& state) {
  TraceWriter writer(scratch_file());
  TypicalOps ops(writer);
  for (auto _ : state) {
    const std::uint32_t at = ops.next();
    if (at % 1000 == 1) writer.write(StepBegin{{at / 1000}, {0}, {at * 60'000LL}, {}});
    writer.write(StorageBirth{{at}, 51'380'224_B, StorageKind::activation, {0}, {at * 60'000LL}});
    ops.write();
    if (at > 500) writer.write(StorageDeath{{at - 500}, {at * 60'000LL}});
    if (at % 1000 == 0) writer.write(StepEnd{{at / 1000 - 1}, {0}, {at * 60'000LL}});
  }
  writer.close();
  unlink(scratch_file().c_str());
}
BENCHMARK(write_op_and_lives_bounded);

std::vector<std::uint8_t> recorded_step() {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), WriterOptions::keep_all());
  const Trace trace = import_recorded_step(SPILLWAY_SOURCE_DIR "/traces/gpt2m_16x1024.json.gz");
  for (const Event& event : trace.events) writer.write(event);
  writer.close();
  return bytes;
}

void write_recorded_step(benchmark::State& state) {
  const Trace trace = import_recorded_step(SPILLWAY_SOURCE_DIR "/traces/gpt2m_16x1024.json.gz");
  for (auto _ : state) {
    TraceWriter writer(std::make_unique<NullSink>(), WriterOptions::keep_all());
    for (const Event& event : trace.events) writer.write(event);
  }
  const auto events = static_cast<double>(trace.events.size());
  state.counters["per_event"] = benchmark::Counter(events, kPerThing);
  state.counters["bytes_per_event"] = static_cast<double>(recorded_step().size()) / events;
}
BENCHMARK(write_recorded_step);

void read_recorded_step(benchmark::State& state) {
  const auto bytes = recorded_step();
  std::size_t events = 0;
  for (auto _ : state) events = read_trace(bytes, "memory").events.size();
  state.counters["per_event"] = benchmark::Counter(static_cast<double>(events), kPerThing);
}
BENCHMARK(read_recorded_step);

}  // namespace
}  // namespace spillway

BENCHMARK_MAIN();
