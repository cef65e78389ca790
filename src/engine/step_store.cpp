#include "engine/step_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "trace/block.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace spillway {

namespace {

constexpr std::uint64_t kMagic = 0x3150455453575053;  // "SPWSTEP1"
constexpr std::size_t kHead = 2 * sizeof(std::uint64_t);

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

}  // namespace

std::vector<std::uint8_t> encode_steps(const KnownSteps& steps, std::string_view writer) {
  Bytewise to;
  to.number(kMagic);
  to.number<std::uint64_t>(0);
  to.text(writer);
  to.number<std::uint64_t>(steps.size());
  for (const auto& one : steps) encode(to, *one);
  const std::uint64_t sum = checksum(std::span<const std::uint8_t>(to.bytes()).subspan(kHead));
  std::memcpy(to.bytes().data() + sizeof kMagic, &sum, sizeof sum);
  return std::move(to.bytes());
}

KnownSteps decode_steps(std::span<const std::uint8_t> bytes, std::string_view writer, const std::string& name) {
  BytewiseReader from(bytes, name);
  if (bytes.size() < kHead || from.number<std::uint64_t>() != kMagic) throw InputError(name + " is no file of kept steps: it is not used");
  if (from.number<std::uint64_t>() != checksum(bytes.subspan(kHead))) {
    throw InputError("the kept steps in " + name + " are damaged or cut short: they are not used");
  }
  const auto by = from.text();
  const std::string_view written_by(reinterpret_cast<const char*>(by.data()), by.size());
  if (written_by != writer) {
    throw InputError("the kept steps in " + name + " were written by " + std::string(written_by) + " and not by " + std::string(writer) + ": they are not used");
  }
  KnownSteps steps(from.count(1));
  for (auto& one : steps) one = std::make_shared<const RecordedSteps>(decode(from, name));
  if (!from.is_done()) from.fail();
  return steps;
}

std::string StepStore::path_of(std::uint64_t key) const {
  char name[32];
  std::snprintf(name, sizeof name, "%016llx.steps", static_cast<unsigned long long>(key));
  return folder_ + "/" + name;
}

KnownSteps StepStore::load(std::uint64_t key) const {
  std::ifstream file(path_of(key), std::ios::binary);
  if (!file) return {};
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  return decode_steps({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, writer_, path_of(key));
}

void StepStore::save(std::uint64_t key, const KnownSteps& steps) const {
  const std::vector<std::uint8_t> bytes = encode_steps(steps, writer_);
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
