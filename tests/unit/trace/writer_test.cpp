#include "trace/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "support/trace_samples.h"
#include "trace/check.h"
#include "trace/reader.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Loop;
using testing::one_of_each;
using ::testing::ThrowsMessage;
using testing::write_to_memory;

std::string temporary(const std::string& name) {
  return ::testing::TempDir() + "spillway_" + std::to_string(getpid()) + "_" + name;
}

std::vector<std::uint8_t> bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

template <class E>
std::vector<E> all_of(const Trace& trace) {
  std::vector<E> found;
  for (const Event& event : trace.events)
    if (const E* one = std::get_if<E>(&event)) found.push_back(*one);
  return found;
}

std::vector<std::uint32_t> steps_ended(const Trace& trace) {
  std::vector<std::uint32_t> steps;
  for (const StepEnd& end : all_of<StepEnd>(trace)) steps.push_back(end.step.index);
  return steps;
}

// Takes bytes until it is full, like a disk.
class SmallSink final : public Sink {
 public:
  SmallSink(std::vector<std::uint8_t>& into, std::size_t most) : into_(into), most_(most) {}
  bool append(std::span<const std::uint8_t> bytes) override {
    if (into_.size() + bytes.size() > most_) return false;
    into_.insert(into_.end(), bytes.begin(), bytes.end());
    return true;
  }
  bool truncate(std::uint64_t size) override { return into_.resize(size), true; }
  std::string problem() const override { return "the disk is full"; }

 private:
  std::vector<std::uint8_t>& into_;
  std::size_t most_;
};

// Memory that remembers how much was ever appended and how often it was cut.
class CountingSink final : public Sink {
 public:
  explicit CountingSink(std::vector<std::uint8_t>& into) : into_(into) {}
  bool append(std::span<const std::uint8_t> bytes) override {
    into_.insert(into_.end(), bytes.begin(), bytes.end());
    appended += bytes.size();
    return true;
  }
  bool truncate(std::uint64_t size) override {
    ++truncations;
    return into_.resize(size), true;
  }
  std::string problem() const override { return {}; }

  std::size_t appended = 0;
  int truncations = 0;

 private:
  std::vector<std::uint8_t>& into_;
};

TEST(TraceWriter, WritesAnEmptyTraceThatReadsAsOne) {
  const Trace trace = read_trace(write_to_memory({}), "memory");
  EXPECT_THAT(trace.events, IsEmpty());
  EXPECT_FALSE(trace.truncated);
}

TEST(TraceWriter, AnnouncesANameOnceBeforeItsFirstUse) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes));
  const NameId relu = writer.intern("relu"), mm = writer.intern("mm");
  EXPECT_EQ(writer.intern("relu"), relu);
  EXPECT_NE(mm, relu);
  writer.close();
  EXPECT_THAT(read_trace(bytes, "memory").names, ElementsAre("relu", "mm"));
}

TEST(TraceWriter, MakesAnyTextOneThatATraceCanHold) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes));
  const NameId odd = writer.intern("od\xff");
  EXPECT_EQ(writer.intern("od?"), odd);
  std::ignore = writer.intern(std::string(1'000'000, 'x'));
  writer.write(Fact{"k\xfe", "v"});
  writer.close();
  const Trace trace = read_trace(bytes, "memory");
  EXPECT_EQ(trace.names[0], "od?");
  EXPECT_EQ(trace.names[1].size(), 64u * 1024);
  EXPECT_THAT(all_of<Fact>(trace), ElementsAre(Fact{"k?", "v"}));
}

TEST(TraceWriter, GivesAllNamesBeyondItsBoundOneId) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes));
  for (int i = 0; i < 65'535; ++i) std::ignore = writer.intern(std::to_string(i));
  const NameId last = writer.intern("one more");
  EXPECT_EQ(last.index, 65'535u);
  EXPECT_EQ(writer.intern("and another"), last);
  EXPECT_EQ(writer.intern("17").index, 17u);
  writer.close();
  EXPECT_THAT(read_trace(bytes, "memory").names.back(), HasSubstr("more names"));
}

// Ops of growing size, so that blocks close at every possible distance from their bound.
TEST(TraceWriter, LosesNothingWhereverABlockEnds) {
  std::vector<Event> events{Name{NameId{0}, "op"}};
  for (std::uint32_t i = 0; i < 3000; ++i) {
    Op op{.index = {i}, .name = {0}, .start = {i * 1000}};
    op.inputs.assign(i % 97, StorageId{i});
    op.outputs.assign(i % 3, StorageId{i * 1'000'003});
    events.emplace_back(op);
  }
  const auto bytes = write_to_memory(events);
  EXPECT_GT(bytes.size(), 3 * kBlockBytes);
  EXPECT_EQ(read_trace(bytes, "memory").events, events);
}

TEST(TraceWriter, TakesAnEventLargerThanABlock) {
  Op huge{.index = {0}, .name = {0}};
  for (std::uint32_t i = 0; i < 100'000; ++i) huge.inputs.push_back({i * 40'009});
  const std::vector<Event> events{Name{NameId{0}, "op"}, Op{.index = {0}, .name = {0}}, huge,
                                  Op{.index = {1}, .name = {0}}};
  EXPECT_EQ(read_trace(write_to_memory(events), "memory").events, events);
}

TEST(TraceWriter, GivesEqualBytesForEqualEvents) {
  EXPECT_EQ(write_to_memory(one_of_each()), write_to_memory(one_of_each()));
}

TEST(TraceWriter, RefusesANameOutOfOrderAsAProgrammingError) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes));
  EXPECT_THROW(writer.write(Name{NameId{5}, "five"}), InvariantError);
}

TEST(TraceWriter, TakesNothingAfterItWasClosed) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes));
  writer.close();
  EXPECT_THROW(writer.write(Restart{1_ns}), InvariantError);
}

TEST(TraceWriter, CutAnywhereReadsAsAPrefixOfItsEvents) {
  std::vector<std::uint8_t> bytes;
  {
    TraceWriter writer(std::make_unique<MemorySink>(bytes), WriterOptions::keep_all());
    for (const Event& event : one_of_each()) {
      writer.write(event);
      writer.flush();
    }
  }
  const std::vector<Event> whole = read_trace(bytes, "memory").events;
  std::size_t most = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Trace cut = read_trace(std::span(bytes).first(size), "memory");
    ASSERT_LE(cut.events.size(), whole.size());
    ASSERT_TRUE(std::ranges::equal(cut.events, std::span(whole).first(cut.events.size()))) << size;
    ASSERT_EQ(cut.truncated, static_cast<std::size_t>(cut.whole_until.count) != size || size == 0) << size;
    ASSERT_GE(cut.events.size(), most) << "more bytes, fewer events";
    most = cut.events.size();
  }
  EXPECT_EQ(most, whole.size() - 1);
}

TEST(TraceWriter, KilledLeavesEverySealedBlockReadable) {
  const std::string path = temporary("killed.spt");
  const pid_t child = fork();
  if (child == 0) {
    TraceWriter writer(path, WriterOptions::keep_all());
    Loop loop(writer);
    for (int i = 0; i < 5; ++i) loop.step();
    writer.flush();
    loop.step();
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(steps_ended(read_trace(path)), ElementsAre(0, 1, 2, 3, 4));
  unlink(path.c_str());
}

TEST(TraceWriter, OfAForkedChildLeavesItsParentsFileAlone) {
  const std::string path = temporary("forked.spt");
  TraceWriter writer(path, {.first_steps = 1, .last_steps = 1});
  Loop loop(writer);
  for (int i = 0; i < 10; ++i) loop.step();
  const auto before = bytes_of(path);
  const pid_t child = fork();
  if (child == 0) {
    loop.step();
    writer.close();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(bytes_of(path), before);
  loop.step();
  writer.close();
  EXPECT_THAT(check_trace(read_trace(path)), IsEmpty());
  unlink(path.c_str());
}

TEST(TraceWriter, SaysWhyAFileCannotBeOpened) {
  EXPECT_THAT([] { TraceWriter writer("/nowhere/at/all.spt"); },
              ThrowsMessage<InputError>(
                  "/nowhere/at/all.spt: cannot be opened for writing a trace: No such file or directory"));
}

TEST(TraceWriter, OnAFullDiskGoesOnWithoutWritingAndSaysSoOnce) {
  TraceWriter writer("/dev/full");
  EXPECT_TRUE(writer.status().broken);
  Loop loop(writer);
  loop.step();
  EXPECT_EQ(writer.take_problem(), "/dev/full: the trace cannot be written: No space left on device");
  EXPECT_EQ(writer.take_problem(), std::nullopt);
  EXPECT_GT(writer.close().lost_events, 60u);
}

TEST(TraceWriter, KeepsWhatFittedWhenTheDiskFillsUpAndCountsTheRest) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<SmallSink>(bytes, 200'000), WriterOptions::keep_all());
  Loop loop(writer, 1000);
  for (int i = 0; i < 20; ++i) loop.step();
  const WriterStatus status = writer.close();
  EXPECT_TRUE(status.broken);
  EXPECT_EQ(status.problem, "the disk is full");
  const Trace trace = read_trace(bytes, "memory");
  EXPECT_GT(trace.events.size(), 1000u);
  const std::size_t in_all = 3 + 20 * (2 + 1000 + 1000 + 998 + 1) + 18;
  EXPECT_EQ(trace.events.size() + status.lost_events, in_all);
}

// steps    0  1  2 | 3 .................. 996 | 997 998 999
//          whole     one summary each           whole
TEST(BoundedTrace, KeepsTheFirstAndLastStepsWholeAndOneLinePerStepBetween) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes));
  Loop loop(writer);
  for (int i = 0; i < 1000; ++i) loop.step();
  writer.close();
  const Trace trace = read_trace(bytes, "memory");
  EXPECT_THAT(steps_ended(trace), ElementsAre(0, 1, 2, 997, 998, 999));
  const auto summaries = all_of<StepSummary>(trace);
  ASSERT_EQ(summaries.size(), 994u);
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    EXPECT_EQ(summaries[i].step.index, i + 3);
    EXPECT_EQ(summaries[i].ops, 20u);
  }
  EXPECT_THAT(check_trace(trace), IsEmpty());
}

TEST(BoundedTrace, GrowsByNoMoreThanASummaryPerStep) {
  const auto size_after = [](int steps) {
    std::vector<std::uint8_t> bytes;
    std::size_t most = 0;
    TraceWriter writer(std::make_unique<MemorySink>(bytes));
    Loop loop(writer, 200);
    for (int i = 0; i < steps; ++i) {
      loop.step();
      most = std::max(most, bytes.size());
    }
    writer.close();
    EXPECT_LT(most, bytes.size() + 1024 * 1024 + 3 * bytes.size()) << "while it was written";
    return bytes.size();
  };
  const std::size_t few = size_after(20), many = size_after(2020);
  EXPECT_LT(many - few, 2000u * 48);
}

void run_with_many_living(TraceWriter& writer, std::uint32_t ops, int steps, std::uint32_t living) {
  Loop loop(writer, ops);
  for (std::uint32_t i = 0; i < living; ++i)
    writer.write(StorageBirth{{1'000'000 + i * 1000}, {i * 4096LL}, {}, {0}, {i}});
  for (int i = 0; i < steps; ++i) loop.step();
  writer.close();
}

// Bytes of the same run with every event kept.
std::size_t whole_run(std::uint32_t ops, int steps, std::uint32_t living) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), WriterOptions::keep_all());
  run_with_many_living(writer, ops, steps, living);
  return bytes.size();
}

// A large model leaves many storages alive; announcing them again must not become the cost of every step.
TEST(BoundedTrace, IsRewrittenSeldomHoweverMuchLives) {
  std::vector<std::uint8_t> bytes;
  auto sink = std::make_unique<CountingSink>(bytes);
  const CountingSink& counts = *sink;
  TraceWriter writer(std::move(sink), {.first_steps = 0, .last_steps = 1});
  run_with_many_living(writer, 400, 1000, 200'000);
  EXPECT_GT(counts.truncations, 0);
  EXPECT_LT(counts.appended, 3 * whole_run(400, 1000, 200'000));
}

// What the summary of a step in the middle says is what the same step says when it is kept whole.
TEST(BoundedTrace, SummarizesAStepAsItsEventsWould) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes));
  Loop loop(writer);
  for (int i = 0; i < 50; ++i) loop.step();
  writer.close();
  const auto summaries = all_of<StepSummary>(read_trace(bytes, "memory"));
  // Two parameters, the storages left by the two steps before, and a chain where two outlive the op that is running.
  const Bytes peak = 1_MiB + 2_MiB + 2 * 64_KiB + 2 * 64_KiB + 96_KiB;
  ASSERT_FALSE(summaries.empty());
  for (const StepSummary& summary : summaries) EXPECT_EQ(summary.peak, peak) << summary.step.index;
}

TEST(BoundedTrace, AnnouncesWhatHoldsAtTheBeginningOfItsTail) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), {.first_steps = 1, .last_steps = 1});
  Loop loop(writer);
  loop.step();
  writer.write(Fact{"late", "fact"});
  const NameId policy = writer.intern("hybrid"), reason = writer.intern("idle");
  writer.write(BudgetChange{7_GiB, JobId{0}, 1_s});
  writer.write(Reserved{TraceTier::device, 6_GiB, 1_s});
  writer.write(Allocation{StorageId{0}, OpIndex{}, Range{0_B, 1_MiB}, StreamId{0}, 0, 0, 1_s});
  writer.write(Allocation{StorageId{1}, OpIndex{}, Range{1_MiB, 3_MiB}, StreamId{0}, 0, 0, 1_s});
  writer.write(Release{Range{0_B, 1_MiB}, StreamId{0}, 1_s});
  writer.write(PlanMade{.policy = policy, .job = JobId{0}, .step = StepIndex{1}, .budget = 7_GiB, .at = 1_s});
  writer.write(Decision{.storage = StorageId{1}, .action = Action::move_out, .reason = reason, .job = JobId{0}});
  writer.write(Move{.storage = StorageId{1}, .size = 2_MiB, .start = 1_s});
  writer.write(StorageRole{StorageId{0}, StorageKind::gradient});
  for (int i = 0; i < 10; ++i) loop.step();
  writer.close();

  const Trace trace = read_trace(bytes, "memory");
  const auto restart =
      std::ranges::find_if(trace.events, [](const Event& e) { return std::holds_alternative<Restart>(e); });
  Trace tail{.events = {restart, trace.events.end()}, .names = trace.names};
  EXPECT_THAT(all_of<Fact>(tail), ElementsAre(Fact{"late", "fact"}));
  EXPECT_THAT(all_of<Name>(tail), ElementsAre(Name{policy, "hybrid"}, Name{reason, "idle"}));
  EXPECT_THAT(all_of<BudgetChange>(tail), ElementsAre(BudgetChange{7_GiB, JobId{0}, 1_s}));
  EXPECT_EQ(all_of<Reserved>(tail).size(), 1u);
  EXPECT_THAT(all_of<Allocation>(tail), ElementsAre(::testing::Field(&Allocation::storage, StorageId{1})));
  EXPECT_EQ(all_of<PlanMade>(tail).size(), 1u);
  EXPECT_EQ(all_of<Decision>(tail).size(), 1u);
  const auto births = all_of<StorageBirth>(tail);
  ASSERT_GE(births.size(), 4u);
  EXPECT_EQ(births[0].storage, StorageId{0});
  EXPECT_EQ(births[0].kind, StorageKind::gradient);
  EXPECT_EQ(births[1].storage, StorageId{1});
  EXPECT_EQ(births[1].tier, TraceTier::host);
  EXPECT_THAT(check_trace(trace), IsEmpty());
}

TEST(BoundedTrace, IsLawfulWhereverTheRunStops) {
  for (int steps = 0; steps < 12; ++steps) {
    std::vector<std::uint8_t> bytes;
    TraceWriter writer(std::make_unique<MemorySink>(bytes), {.first_steps = 2, .last_steps = 1});
    Loop loop(writer, 5);
    for (int i = 0; i < steps; ++i) loop.step();
    writer.close();
    const Trace trace = read_trace(bytes, "memory");
    EXPECT_THAT(check_trace(trace), IsEmpty()) << steps << " steps";
    EXPECT_EQ(all_of<StepEnd>(trace).size() + all_of<StepSummary>(trace).size(), static_cast<std::size_t>(steps));
  }
}

TEST(BoundedTrace, WithoutTailOrHeadKeepsSummariesOnly) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), {.first_steps = 0, .last_steps = 0});
  Loop loop(writer);
  for (int i = 0; i < 10; ++i) loop.step();
  writer.close();
  const Trace trace = read_trace(bytes, "memory");
  EXPECT_THAT(steps_ended(trace), IsEmpty());
  EXPECT_EQ(all_of<StepSummary>(trace).size(), 10u);
  EXPECT_THAT(check_trace(trace), IsEmpty());
}

TEST(BoundedTrace, CountsStepsOfEachJob) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), {.first_steps = 1, .last_steps = 2});
  Loop loop(writer);
  for (std::uint32_t i = 0; i < 20; ++i) loop.step(JobId{i % 2});
  writer.close();
  const Trace trace = read_trace(bytes, "memory");
  EXPECT_THAT(steps_ended(trace), ElementsAre(0, 16, 17, 18, 19));
  EXPECT_THAT(check_trace(trace), IsEmpty());
}

// A script whose steps are never seen to end must not fill the memory or the disk.
TEST(BoundedTrace, StaysBoundedWhenAStepNeverEnds) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), {.most_head = 256_KiB, .most_tail = 512_KiB});
  Loop loop(writer, 300'000);
  std::size_t most = 0;
  loop.step();
  most = std::max(most, bytes.size());
  writer.close();
  EXPECT_LT(bytes.size(), 256u * 1024 + 2 * kBlockBytes + 3 * 512 * 1024);
  EXPECT_LT(most, 256u * 1024 + 3 * 512 * 1024 + 1024 * 1024 + 4 * kBlockBytes);
  const Trace trace = read_trace(bytes, "memory");
  EXPECT_THAT(check_trace(trace), IsEmpty());
  EXPECT_EQ(all_of<Op>(trace).back().index.index, 299'999u);
}

// Whatever moment the process is killed at, the last steps are there up to a block.
TEST(BoundedTrace, IsLawfulAtEveryMomentOnItsWay) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), {.first_steps = 1, .last_steps = 2});
  Loop loop(writer, 4000);
  for (std::uint32_t i = 0; i < 40; ++i) {
    loop.step();
    const Trace trace = read_trace(bytes, "memory");
    ASSERT_THAT(check_trace(trace), IsEmpty()) << "after step " << i;
    ASSERT_EQ(steps_ended(trace).back(), i);
    ASSERT_FALSE(trace.truncated);
  }
}

}  // namespace
}  // namespace spillway
