#include "trace/recorded_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "trace/gzip.h"

namespace spillway {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kOutlived = 1'000'000'000;  // `death` of a storage that outlived the step
// What one row may say; a step may say as much in all, so that no sum overflows.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr double kMostMicros = 1e12;  // eleven days

struct RecordedStorage {
  Bytes size;
  std::size_t birth = 0, death = 0;  // op positions; death is one past the last op where it outlived the step
  bool outlived = false;
  // Inferred:
  bool before = false;  // was there before the step
  StorageKind kind = StorageKind::activation;
};

struct RecordedOp {
  std::string name;
  Phase phase = Phase::unknown;
  std::vector<std::uint32_t> inputs, outputs, mutated;
  Nanos duration;
  Bytes transient, allocated;
};

struct RecordedStep {
  std::string name;
  double plain_ms = 0;
  Bytes peak;
  std::vector<RecordedStorage> storages;
  std::vector<RecordedOp> ops;
};

// One JSON object and its name in messages: "resnet.json.gz: ops[12]".
class Row {
 public:
  Row(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) throw InputError(where_ + ": expected an object");
  }

  [[nodiscard]] std::int64_t whole(const char* key, std::int64_t least, std::int64_t most) const {
    const Json& found = get(key);
    const bool fits =
        found.is_number_integer() && !(found.is_number_unsigned() && found.get<std::uint64_t>() > INT64_MAX);
    const std::int64_t value = fits ? found.get<std::int64_t>() : least - 1;
    if (!fits || value < least || value > most) fail(key, fmt::format("a whole number in {}..{}", least, most));
    return value;
  }
  [[nodiscard]] double number(const char* key, double most) const {
    const Json& found = get(key);
    const double value = found.is_number() ? found.get<double>() : -1;
    if (!(value >= 0 && value <= most)) fail(key, fmt::format("a number in 0..{}", most));
    return value;
  }
  [[nodiscard]] std::string text(const char* key) const {
    if (!get(key).is_string()) fail(key, "a text");
    return get(key).get<std::string>();
  }
  [[nodiscard]] const Json& list(const char* key) const {
    if (!get(key).is_array()) fail(key, "a list");
    return get(key);
  }
  [[nodiscard]] std::vector<std::uint32_t> indices(const char* key, std::size_t count) const {
    std::vector<std::uint32_t> result;
    for (const Json& one : list(key)) {
      if (!one.is_number_unsigned() || one.get<std::uint64_t>() >= count)
        fail(key, fmt::format("storages below {}", count));
      result.push_back(one.get<std::uint32_t>());
    }
    return result;
  }
  [[nodiscard]] Row row(const char* key, std::size_t index) const {
    return {list(key)[index], fmt::format("{}: {}[{}]", where_, key, index)};
  }
  [[noreturn]] void fail(const char* key, const std::string& expected) const {
    throw InputError(fmt::format("{}: field \"{}\": expected {}", where_, key, expected));
  }

 private:
  [[nodiscard]] const Json& get(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) throw InputError(fmt::format("{}: field \"{}\" is missing", where_, key));
    return *found;
  }

  const Json& object_;
  std::string where_;
};

Phase phase_of(const Row& row) {
  constexpr std::array<std::pair<std::string_view, Phase>, 3> kPhases{
      {{"fwd", Phase::forward}, {"bwd", Phase::backward}, {"opt", Phase::optimizer}}};
  const std::string text = row.text("ph");
  for (const auto& [word, phase] : kPhases)
    if (word == text) return phase;
  row.fail("ph", "one of fwd, bwd, opt");
}

RecordedOp parse_op(const Row& row, std::size_t storages) {
  return {.name = row.text("n"),
          .phase = phase_of(row),
          .inputs = row.indices("i", storages),
          .outputs = row.indices("o", storages),
          .mutated = row.indices("m", storages),
          .duration = {std::llround(row.number("us", kMostMicros) * 1000)},
          .transient = {row.whole("pk", 0, kMostBytes)},
          .allocated = {row.whole("al", 0, kMostBytes)}};
}

RecordedStorage parse_storage(const Row& row, std::size_t ops) {
  RecordedStorage storage{.size = {row.whole("bytes", 0, kMostBytes)}};
  const std::int64_t birth = row.whole("birth", 0, static_cast<std::int64_t>(ops) - 1);
  const std::int64_t death = row.whole("death", birth + 1, kOutlived);
  storage.birth = static_cast<std::size_t>(birth);
  storage.outlived = death == kOutlived;
  storage.death = std::min(static_cast<std::size_t>(death), ops);
  return storage;
}

void check_sums(const RecordedStep& step, const Row& row) {
  double micros = 0, bytes = 0;
  for (const RecordedOp& op : step.ops) micros += static_cast<double>(op.duration.count) / 1000;
  for (const RecordedStorage& storage : step.storages) bytes += static_cast<double>(storage.size.count);
  if (micros > kMostMicros) row.fail("ops", fmt::format("no more than {} us in all", kMostMicros));
  if (bytes > static_cast<double>(kMostBytes)) row.fail("sto", fmt::format("no more than {} bytes in all", kMostBytes));
}

// Every op names only storages that are there.
void check_lives(const RecordedStep& step, const Row& row) {
  for (std::size_t at = 0; at < step.ops.size(); ++at) {
    const auto check = [&](const char* key, const std::vector<std::uint32_t>& list) {
      for (const std::uint32_t i : list) {
        const RecordedStorage& storage = step.storages[i];
        if (at < storage.birth || (at >= storage.death && !storage.outlived))
          row.row("ops", at).fail(key, fmt::format("storages between birth and death, which {} is not", i));
      }
    };
    check("i", step.ops[at].inputs);
    check("o", step.ops[at].outputs);
    check("m", step.ops[at].mutated);
  }
}

RecordedStep parse_step(std::string_view text, const std::string& file) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw InputError(file + ": expected a recorded step, which is one JSON object");
  const Row row(json, file);
  RecordedStep step{.name = row.text("name"),
                    .plain_ms = row.number("plain_ms", kMostMicros / 1000),
                    .peak = {row.whole("peak", 0, kMostBytes)}};
  const std::size_t storages = row.list("sto").size();
  const std::size_t ops = row.list("ops").size();
  if (ops == 0) row.fail("ops", "at least one op");
  for (std::size_t i = 0; i < ops; ++i) step.ops.push_back(parse_op(row.row("ops", i), storages));
  for (std::size_t i = 0; i < storages; ++i) step.storages.push_back(parse_storage(row.row("sto", i), ops));
  check_sums(step, row);
  check_lives(step, row);
  return step;
}

// How a step uses a storage, as far as its kind can be told from that.
struct Uses {
  bool made = false, made_in_backward = false;  // returned by an op before any op read it
  std::size_t made_at = 0;
  bool in_model = false;  // named outside the optimizer
  bool in_optimizer = false;
  bool written = false, written_in_optimizer = false;
  bool batch_norm = false;  // read by a batch norm: its weights and running statistics
};

std::vector<Uses> uses_of(const RecordedStep& step) {
  std::vector<Uses> all(step.storages.size());
  std::vector<bool> seen(step.storages.size());
  for (std::size_t at = 0; at < step.ops.size(); ++at) {
    const RecordedOp& op = step.ops[at];
    const bool optimizer = op.phase == Phase::optimizer;
    for (const std::uint32_t i : op.inputs) {
      seen[i] = true;
      (optimizer ? all[i].in_optimizer : all[i].in_model) = true;
      all[i].batch_norm |= op.name.find("batch_norm") != std::string::npos;
    }
    for (const std::uint32_t i : op.mutated) {
      seen[i] = true;
      all[i].written = true;
      all[i].written_in_optimizer |= optimizer;
    }
    for (const std::uint32_t i : op.outputs) {
      if (!seen[i]) all[i] = {.made = true, .made_in_backward = op.phase == Phase::backward, .made_at = at};
      seen[i] = true;
    }
  }
  return all;
}

// There before the step: a parameter is written by the optimizer and used by the model, optimizer state only written by
// the optimizer; running statistics count as parameters (the module's own state), the rest is the batch. Made in the
// step: a gradient is made in backward and read by the optimizer.
StorageKind kind_of(const Uses& uses) {
  if (uses.made) return uses.made_in_backward && uses.in_optimizer ? StorageKind::gradient : StorageKind::activation;
  if (uses.written_in_optimizer) return uses.in_model ? StorageKind::parameter : StorageKind::optimizer_state;
  if (uses.in_optimizer && !uses.in_model) return StorageKind::optimizer_state;
  return uses.written || uses.batch_norm ? StorageKind::parameter : StorageKind::input;
}

void infer_storages(RecordedStep& step) {
  const std::vector<Uses> uses = uses_of(step);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    step.storages[i].kind = kind_of(uses[i]);
    step.storages[i].before = !uses[i].made;
    step.storages[i].birth = uses[i].made_at;
  }
}

// Empty where running the op again gives the same bytes (random numbers and batch-norm statistics set aside: whoever
// replays sees to those). Nothing is said of ops that make no storage: there is nothing to rebuild.
std::string_view why_not_replayable(const RecordedOp& op) {
  if (op.phase == Phase::optimizer) return "belongs to the optimizer";
  if (op.mutated.size() > 1) return "writes more than one storage in place";
  if (op.name.find("empty") != std::string::npos) return "returns uninitialised memory";
  if (op.outputs.empty() && op.mutated.empty()) return "makes no storage";
  return {};
}

// Builds the events of a step in order.
class Builder {
 public:
  explicit Builder(const RecordedStep& step)
      : step_(step), ids_(step.storages.size()), deaths_(step.ops.size() + 1), births_(step.ops.size()) {
    for (std::size_t i = 0; i < step.storages.size(); ++i) {
      const RecordedStorage& storage = step.storages[i];
      if (!storage.before) births_[storage.birth].push_back(i);
      if (!storage.outlived) deaths_[storage.death].push_back(i);
    }
  }

  Trace build() {
    add(Fact{"model", step_.name});
    add(Fact{"plain_step_ns", std::to_string(std::llround(step_.plain_ms * 1e6))});
    add(Fact{"plain_peak_bytes", std::to_string(step_.peak.count)});
    for (std::size_t i = 0; i < step_.storages.size(); ++i)
      if (step_.storages[i].before) give_birth(i);
    if (const Bytes unseen = unseen_bytes(); unseen > Bytes{}) announce(unseen, StorageKind::workspace);
    add(StepBegin{kStep, kJob, now_, {}});
    for (std::size_t at = 0; at < step_.ops.size(); ++at) run(at);
    bury(step_.ops.size());
    add(StepEnd{kStep, kJob, now_});
    trace_.names = names_.texts();
    return std::move(trace_);
  }

 private:
  static constexpr StepIndex kStep{0};
  static constexpr JobId kJob{0};
  static constexpr StreamId kStream{0};

  void add(Event event) { trace_.events.push_back(std::move(event)); }

  StorageId announce(Bytes size, StorageKind kind) {
    const StorageId id{next_++};
    add(StorageBirth{id, size, kind, kJob, now_});
    return id;
  }
  void give_birth(std::size_t i) { ids_[i] = announce(step_.storages[i].size, step_.storages[i].kind); }
  void bury(std::size_t at) {
    for (const std::size_t i : deaths_[at]) add(StorageDeath{ids_[i], now_});
  }

  // What was allocated before the first op and is no storage any op names: library workspaces, mostly.
  [[nodiscard]] Bytes unseen_bytes() const {
    Bytes unseen = step_.ops[0].allocated;
    for (const RecordedStorage& storage : step_.storages)
      if (storage.before) unseen -= storage.size;
    for (const std::size_t i : births_[0]) unseen -= step_.storages[i].size;
    return unseen;
  }

  void run(std::size_t at) {
    const RecordedOp& recorded = step_.ops[at];
    bury(at);
    Bytes made;
    for (const std::size_t i : births_[at]) {
      give_birth(i);
      made += step_.storages[i].size;
    }
    Op op{
        .index = {static_cast<std::uint32_t>(at)}, .name = intern(recorded.name), .phase = recorded.phase, .job = kJob};
    op.step = kStep;
    op.stream = kStream;
    op.start = now_;
    op.duration = recorded.duration;
    op.transient = recorded.transient;
    op.workspace = std::max(Bytes{}, recorded.transient - made);
    const std::string_view why_not = why_not_replayable(recorded);
    op.replayable = why_not.empty();
    if (!op.replayable) op.why_not = intern(why_not);
    list_storages(op, recorded);
    add(std::move(op));
    now_ += recorded.duration;
  }

  void list_storages(Op& op, const RecordedOp& recorded) const {
    const auto has = [](const std::vector<std::uint32_t>& list, std::uint32_t i) {
      return std::ranges::find(list, i) != list.end();
    };
    for (const std::uint32_t i : recorded.inputs) op.inputs.push_back(ids_[i]);
    for (const std::uint32_t i : recorded.mutated) op.mutated.push_back(ids_[i]);
    for (const std::uint32_t i : recorded.outputs) {
      op.outputs.push_back(ids_[i]);
      if (has(recorded.inputs, i) && !has(recorded.mutated, i)) op.aliased.push_back(ids_[i]);
    }
  }

  NameId intern(std::string_view text) {
    if (const auto known = names_.find(text)) return *known;
    const Name name{{static_cast<std::uint32_t>(names_.texts().size())}, std::string(text)};
    std::ignore = names_.announce(name);
    add(name);
    return name.id;
  }

  const RecordedStep& step_;
  Trace trace_;
  NameBook names_;
  std::vector<StorageId> ids_;                             // by recorded position
  std::vector<std::vector<std::size_t>> deaths_, births_;  // recorded positions by op
  std::uint32_t next_ = 0;
  Nanos now_;
};

}  // namespace

Trace parse_recorded_step(std::string_view json, const std::string& file) {
  RecordedStep step = parse_step(json, file);
  infer_storages(step);
  return Builder(step).build();
}

Trace import_recorded_step(const std::string& path) { return parse_recorded_step(read_maybe_gzip(path), path); }

}  // namespace spillway
