// Traces for tests: one event of every kind, steps of any number, and files of them in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/writer.h"

namespace spillway::testing {

inline std::vector<std::uint8_t> write_to_memory(const std::vector<Event>& events,
                                                 WriterOptions options = WriterOptions::keep_all()) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), options);
  for (const Event& event : events) writer.write(event);
  writer.close();
  return bytes;
}

// Every kind of event with unremarkable values; lawful.
inline std::vector<Event> one_of_each() {
  const StorageId weight{0}, out{1};
  const JobId job{0};
  return {
      Fact{"model", "tiny"},
      Name{NameId{0}, "aten.mm.default"},
      Name{NameId{1}, "8x4 float"},
      Name{NameId{2}, "lru"},
      Name{NameId{3}, "idle for 3 ops"},
      BudgetChange{1_GiB, job, 1_us},
      Reserved{TraceTier::device, 2_MiB, 2_us},
      StorageBirth{weight, 4096_B, StorageKind::parameter, job, 3_us},
      Refusal{1_MiB, OpIndex{0}, StreamId{0}, 4_us},
      Allocation{weight, OpIndex{}, Range{0_B, 4096_B}, StreamId{0}, 3, 1, 4_us},
      StepBegin{StepIndex{0}, job, 5_us, NameId{1}},
      PlanMade{NameId{2}, job, StepIndex{0}, 1_GiB, 900_MiB, 0_B, 2_ms, 30_us, 6_us},
      Decision{weight, Action::move_out, OpIndex{0}, OpIndex{1}, NameId{3}, job, true},
      StorageBirth{out, 512_B, StorageKind::unknown, job, 7_us},
      StorageRole{out, StorageKind::activation},
      Op{.index = OpIndex{0},
         .name = NameId{0},
         .phase = Phase::forward,
         .job = job,
         .step = StepIndex{0},
         .stream = StreamId{0},
         .start = 8_us,
         .duration = 2_us,
         .transient = 1024_B,
         .workspace = 512_B,
         .replayable = true,
         .why_not = {},
         .inputs = {weight},
         .outputs = {out},
         .mutated = {},
         .aliased = {},
         .lean = 400_ns,
         .again = 1_us},
      Move{weight, TraceTier::device, TraceTier::host, 4096_B, OpIndex{0}, 9_us, 1_us, false},
      Stall{StallCause::room, OpIndex{0}, weight, job, 10_us, 1_us},
      Recompute{out, OpIndex{0}, OpIndex{0}, 11_us, 2_us},
      StorageDeath{out, 12_us},
      Release{Range{0_B, 4096_B}, StreamId{0}, 12_us},
      StepEnd{StepIndex{0}, job, 13_us},
      StepSummary{.step = StepIndex{1},
                  .job = job,
                  .ops = 3,
                  .recomputed = 1,
                  .peak = 4608_B,
                  .moved_out = 1_B,
                  .moved_in = 2_B,
                  .at = 14_us,
                  .duration = 5_us,
                  .recompute = 1_us,
                  .stall = {1_ns, 2_ns, 3_ns, 4_ns}},
      Restart{20_us},
      Call{.kind = CallKind::allocate, .words = {1, 0, 300, UINT64_MAX}},
  };
}

// A steady training loop: `ops` ops a step in a chain, each making a storage that dies two ops later. Two parameters
// live throughout, and each step leaves a storage alive that dies in the middle of the step after the next.
class Loop {
 public:
  explicit Loop(TraceWriter& writer, std::uint32_t ops = 20) : writer_(writer), ops_(ops) {
    name_ = writer_.intern("aten.relu.default");
    weight_ = give_birth(1_MiB, StorageKind::parameter);
    give_birth(2_MiB, StorageKind::optimizer_state);
  }

  void step(JobId job = JobId{0}) {
    writer_.write(StepBegin{StepIndex{step_}, job, tick(), NameId{}});
    StorageId before = weight_;
    std::vector<StorageId> chain;
    for (std::uint32_t i = 0; i < ops_; ++i) {
      const StorageId made = give_birth(64_KiB, StorageKind::activation);
      run(job, before, made);
      chain.push_back(made);
      before = made;
      if (i >= 2) bury(chain[i - 2]);
      if (i == ops_ / 2 && step_ >= 2) bury(lasting_[step_ - 2]);
    }
    lasting_.push_back(chain.back());
    bury(chain[ops_ - 2]);
    writer_.write(StepEnd{StepIndex{step_++}, job, tick()});
  }

 private:
  Nanos tick() { return now_ += 10_us; }
  StorageId give_birth(Bytes size, StorageKind kind) {
    const StorageId id{next_storage_++};
    writer_.write(StorageBirth{id, size, kind, JobId{0}, tick()});
    return id;
  }
  void bury(StorageId id) { writer_.write(StorageDeath{id, tick()}); }
  void run(JobId job, StorageId input, StorageId output) {
    const StorageId inputs[] = {weight_, input};
    writer_.write(OpView{.index = OpIndex{next_op_++},
                         .name = name_,
                         .phase = Phase::forward,
                         .job = job,
                         .step = StepIndex{step_},
                         .stream = StreamId{0},
                         .start = tick(),
                         .duration = 5_us,
                         .transient = 96_KiB,
                         .workspace = 32_KiB,
                         .replayable = true,
                         .why_not = {},
                         .inputs = inputs,
                         .outputs = {&output, 1},
                         .mutated = {},
                         .aliased = {}});
  }

  TraceWriter& writer_;
  std::uint32_t ops_;
  NameId name_;
  StorageId weight_;
  std::vector<StorageId> lasting_;
  std::uint32_t next_storage_ = 0, next_op_ = 0, step_ = 0;
  Nanos now_;
};

}  // namespace spillway::testing
