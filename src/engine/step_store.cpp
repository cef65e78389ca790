#include "engine/step_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "liveness/liveness.h"
#include "plan/chosen.h"
#include "trace/block.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace spillway {

namespace {

constexpr std::uint64_t kMagic = 0x3250455453575053;  // "SPWSTEP2"
constexpr std::uint64_t kMagicBefore = 0x3150455453575053;  // "SPWSTEP1": without plans
constexpr std::size_t kHead = 2 * sizeof(std::uint64_t);
constexpr std::size_t kMostFound = 4;  // files of runs that began alike, each read while the first step runs

class Bytewise {
 public:
  template <class T>
  void number(T value) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof value);
  }
  void text(std::span<const std::uint8_t> bytes) {
    number<std::uint64_t>(bytes.size());
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view text) { this->text({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}); }
  [[nodiscard]] std::vector<std::uint8_t>& bytes() { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

class BytewiseReader {
 public:
  BytewiseReader(std::span<const std::uint8_t> bytes, const std::string& name) : rest_(bytes), name_(name) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::uint8_t> text() { return take(number<std::uint64_t>()); }
  // Each takes at least `least` bytes of what is left.
  std::size_t count(std::size_t least) {
    const auto count = number<std::uint64_t>();
    if (count > rest_.size() / least) fail();
    return count;
  }
  [[nodiscard]] bool is_done() const { return rest_.empty(); }
  [[noreturn]] void fail() const { throw InputError("the kept steps in " + name_ + " do not make sense: they are not used"); }

 private:
  std::span<const std::uint8_t> take(std::uint64_t size) {
    if (size > rest_.size()) fail();
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  std::span<const std::uint8_t> rest_;
  const std::string& name_;
};

std::vector<std::uint8_t> trace_bytes(const Trace& trace) {
  std::vector<std::uint8_t> bytes;
  TraceWriter writer(std::make_unique<MemorySink>(bytes), WriterOptions::keep_all());
  for (const std::string& name : trace.names) (void)writer.intern(name);
  for (const Event& event : trace.events) {
    if (!std::holds_alternative<Name>(event)) writer.write(event);
  }
  writer.close();
  return bytes;
}

void encode(Bytewise& to, const RecordedSteps& steps) {
  to.number<std::uint8_t>(steps.sample);
  to.number<std::uint64_t>(steps.keys.size());
  for (std::size_t op = 0; op < steps.keys.size(); ++op) {
    to.number(steps.keys[op]);
    to.number(steps.shapes[op]);
    to.number(steps.lean[op].count);
    to.number<std::uint8_t>(steps.timed[op]);
  }
  to.text(trace_bytes(steps.trace));
}

RecordedSteps decode(BytewiseReader& from, const std::string& name) {
  RecordedSteps steps;
  steps.sample = from.number<std::uint8_t>() != 0;
  const std::size_t ops = from.count(3 * sizeof(std::uint64_t) + 1);
  for (std::size_t op = 0; op < ops; ++op) {
    steps.keys.push_back(from.number<std::uint64_t>());
    steps.shapes.push_back(from.number<std::uint64_t>());
    steps.lean.push_back({from.number<std::int64_t>()});
    steps.timed.push_back(from.number<std::uint8_t>() != 0);
  }
  steps.trace = read_trace(from.text(), name);
  const auto is_planned = [](const Event& event) {
    const auto* op = std::get_if<Op>(&event);
    return op != nullptr && op->step == StepRecorder::kStep;
  };
  if (std::ranges::count_if(steps.trace.events, is_planned) != std::ssize(steps.keys)) from.fail();
  if (ops == 0 || steps.trace.truncated) from.fail();
  return steps;
}

void encode(Bytewise& to, const KeptPlan& plan) {
  to.text(plan.policy);
  to.number(plan.budget.count);
  to.number(plan.limit.count);
  to.number<std::uint64_t>(plan.entries.size());
  for (const auto& [at, next, sum] : plan.entries) {
    for (const std::uint64_t word : {at, next, sum}) to.number(word);
  }
  to.number<std::uint64_t>(plan.gaps.size());
  for (const auto& [gap, remedy, fetch_at, again] : plan.gaps) {
    for (const std::uint32_t word : {gap.storage, gap.begin, gap.end, gap.version, fetch_at}) to.number(word);
    for (const bool flag : {gap.ends == GapEnd::access, remedy == Remedy::move, again}) to.number<std::uint8_t>(flag);
  }
}

PlannedGap decode_gap(BytewiseReader& from, std::size_t ops) {
  PlannedGap planned;
  for (std::uint32_t* word : {&planned.gap.storage, &planned.gap.begin, &planned.gap.end, &planned.gap.version, &planned.fetch_at}) *word = from.number<std::uint32_t>();
  planned.gap.ends = from.number<std::uint8_t>() != 0 ? GapEnd::access : GapEnd::death;
  planned.remedy = from.number<std::uint8_t>() != 0 ? Remedy::move : Remedy::drop;
  planned.again = from.number<std::uint8_t>() != 0;
  const Gap& gap = planned.gap;
  if (gap.begin == 0 || gap.begin > ops || gap.begin >= gap.end || gap.end > 2 * ops) from.fail();
  return planned;
}

// Whether these are gaps of the steps at all shows once they are gone through: script_of.
KeptPlan decode_plan(BytewiseReader& from, std::size_t ops) {
  KeptPlan plan;
  const auto policy = from.text();
  plan.policy.assign(policy.begin(), policy.end());
  plan.budget = {from.number<std::int64_t>()};
  plan.limit = {from.number<std::int64_t>()};
  plan.entries.resize(from.count(3 * sizeof(std::uint64_t)));
  for (auto& [at, next, sum] : plan.entries) {
    for (std::uint64_t* word : {&at, &next, &sum}) *word = from.number<std::uint64_t>();
    if (next >= ops) from.fail();
  }
  if (plan.budget <= 0_B || plan.budget > plan.limit || !std::ranges::is_sorted(plan.entries, {}, &Entry::at)) from.fail();
  for (std::size_t left = from.count(5 * sizeof(std::uint32_t) + 3); left > 0; --left) plan.gaps.push_back(decode_gap(from, ops));
  return plan;
}

}  // namespace

std::vector<std::uint8_t> encode_steps(const KeptSteps& kept, std::string_view writer) {
  Bytewise to;
  to.number(kMagic);
  to.number<std::uint64_t>(0);
  to.text(writer);
  to.number<std::uint64_t>(kept.steps.size());
  for (const auto& one : kept.steps) encode(to, *one);
  to.number<std::uint8_t>(kept.plan.has_value());
  if (kept.plan) encode(to, *kept.plan);
  const std::uint64_t sum = checksum(std::span<const std::uint8_t>(to.bytes()).subspan(kHead));
  std::memcpy(to.bytes().data() + sizeof kMagic, &sum, sizeof sum);
  return std::move(to.bytes());
}

KeptSteps decode_steps(std::span<const std::uint8_t> bytes, std::string_view writer, const std::string& name) {
  BytewiseReader from(bytes, name);
  const std::uint64_t magic = bytes.size() < kHead ? 0 : from.number<std::uint64_t>();
  if (magic == kMagicBefore) throw InputError("the kept steps in " + name + " were written by an older version: they are not used");
  if (magic != kMagic) throw InputError(name + " is no file of kept steps: it is not used");
  if (from.number<std::uint64_t>() != checksum(bytes.subspan(kHead))) {
    throw InputError("the kept steps in " + name + " are damaged or cut short: they are not used");
  }
  const auto by = from.text();
  const std::string_view written_by(reinterpret_cast<const char*>(by.data()), by.size());
  if (written_by != writer) {
    throw InputError("the kept steps in " + name + " were written by " + std::string(written_by) + " and not by " + std::string(writer) + ": they are not used");
  }
  KeptSteps kept;
  kept.steps.resize(from.count(1));
  for (auto& one : kept.steps) one = std::make_shared<const RecordedSteps>(decode(from, name));
  const bool planned = from.number<std::uint8_t>() != 0;
  if (planned && kept.steps.empty()) from.fail();
  if (planned) kept.plan = decode_plan(from, kept.steps.back()->keys.size());
  if (!from.is_done()) from.fail();
  return kept;
}

// No storage of this run has a number of that one: whoever was away before it is not looked for.
std::shared_ptr<const Script> script_of(const KeptSteps& kept, const Costs& costs) {
  const RecordedSteps& steps = *kept.steps.back();
  const auto whole = find_step(steps.trace, StepRecorder::kStep);
  if (whole && whole->ops == steps.keys.size()) {
    const Liveness step(steps.trace, *whole);
    if (const auto plan = plan_as_chosen({.step = step, .costs = costs, .budget = kept.plan->budget, .lean = steps.lean}, kept.plan->gaps)) {
      auto script = std::make_shared<Script>(steps, step, *plan, kept.plan->budget);
      script->forget_storages();
      return script;
    }
  }
  throw InputError("a plan that was kept is none for the steps beside it: they are not used");
}

std::string StepStore::name_of(StepKey key) {
  char name[48];
  std::snprintf(name, sizeof name, "%016llx-%016llx.steps", static_cast<unsigned long long>(key.begin), static_cast<unsigned long long>(key.whole));
  return name;
}

KeptSteps StepStore::load(StepKey key) const {
  const std::string path = path_of(key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  std::vector<char> bytes;
  try {
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios_base::failure&) {  // of the buffer itself: a folder, or a file on a disk that fails
    throw InputError("the kept steps in " + path + " cannot be read: they are not used");
  }
  return decode_steps({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, writer_of(key), path);
}

std::vector<StepKey> StepStore::find(std::uint64_t begin) const {
  std::vector<std::pair<std::filesystem::file_time_type, StepKey>> files;
  std::error_code failed;
  for (auto at = std::filesystem::directory_iterator(folder_, failed); !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    unsigned long long of = 0, whole = 0;
    const std::string name = at->path().filename().string();
    if (std::sscanf(name.c_str(), "%16llx-%16llx.steps", &of, &whole) != 2 || of != begin) continue;
    std::error_code unknown;
    files.emplace_back(at->last_write_time(unknown), StepKey{of, whole});
  }
  std::ranges::sort(files, std::greater{}, [](const auto& file) { return std::tuple(file.first, file.second.whole); });
  std::vector<StepKey> keys;
  for (std::size_t at = 0; at < std::min(files.size(), kMostFound); ++at) keys.push_back(files[at].second);
  return keys;
}

void StepStore::save(StepKey key, const KeptSteps& kept) const {
  const std::vector<std::uint8_t> bytes = encode_steps(kept, writer_of(key));
  const std::string path = path_of(key), part = path + "." + std::to_string(::getpid());  // several runs may keep the same
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  std::ofstream file(part, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) std::filesystem::rename(part, path, failed);
  if (!file || failed) {
    std::filesystem::remove(part, failed);
    throw InputError("the steps of this run cannot be kept for the next in " + folder_ + ": is it full, or not to be written?");
  }
}

}  // namespace spillway
