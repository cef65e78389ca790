// The public header's functions: options in words become those of start(), errors become standard ones.
#include <ATen/core/Tensor.h>
#include <c10/core/AutogradState.h>
#include <spillway/spillway.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "base/text.h"
#include "torch/out_of_memory.h"
#include "torch/start.h"
#include "torch/stats_json.h"
#include "torch/walk.h"

namespace spillway {

namespace {

bool multithreading_before = true;

template <class Act>
auto told(Act act) {
  try {
    return act();
  } catch (const InputError& error) {
    throw std::invalid_argument(error.what());
  }
}

Adapter& on() {
  if (!is_enabled()) throw std::logic_error("Spillway is not on: call spillway::enable first, or make a spillway::Budget");
  return *adapter();
}

nlohmann::json words(const Options& options) {
  nlohmann::json json{{"device", options.device}, {"policy", options.policy}};
  if (!options.budget.empty()) json["budget_bytes"] = parse_bytes(options.budget).count;
  if (!options.host_limit.empty()) json["host_limit_bytes"] = parse_bytes(options.host_limit).count;
  if (!options.spill_dir.empty()) json["spill_dir"] = options.spill_dir;
  if (!options.trace.empty()) json["trace"] = options.trace;
  return json;
}

}  // namespace

void enable(const Options& options) {
  told([&] { start(words(options)); });
  // Replays share the forward's plans, which libraries keep per thread.
  multithreading_before = c10::AutogradState::get_tls_state().get_multithreading_enabled();
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

void disable() {
  told([] { stop(on()); });
  c10::AutogradState::get_tls_state().set_multithreading_enabled(multithreading_before);
}

bool is_enabled() { return adapter() != nullptr && adapter()->managing; }

void set_budget(const std::string& amount) {
  told([&] { set_budget(on(), parse_bytes(amount)); });
}

void step() { on().end_step(); }

Stats stats() {
  if (adapter() == nullptr) throw std::logic_error("Spillway was never on: call spillway::enable first");
  const EngineStats now = adapter()->engine().stats();
  const auto seconds = [](Nanos time) { return static_cast<double>(time.count) * 1e-9; };
  const Nanos stalled = now.stalls.fetch + now.stalls.room + now.stalls.host_room + now.stalls.file;
  return {.budget = now.budget.count, .peak = now.peak_reserved.count, .peak_live = now.peak_live.count,
          .plain_peak = now.plain_peak.count, .floor = now.floor.count, .steps = now.steps, .ops = now.ops,
          .moved_out = now.moved_out.count, .moved_in = now.moved_in.count, .recomputed_ops = now.recomputed_ops,
          .recompute_seconds = seconds(now.recompute), .stall_seconds = seconds(stalled),
          .violations = now.violations, .json = stats_json(*adapter())};
}

Budget::Budget(const std::string& amount, Options others) {
  others.budget = amount;
  enable(others);
}

Budget::~Budget() {
  try {
    if (is_enabled()) disable();
  } catch (const std::exception&) {
    // Told by is_enabled(), see the header.
  }
}

struct Resident::Pins {
  std::vector<Record*> records;

  void add(Adapter& adapter, c10::StorageImpl* storage) {
    auto lock = adapter.engine().lock();
    Record* record = adapter.resolve(storage);
    if (record == nullptr) return;
    const Use use{record, false};
    if (const auto why = adapter.engine().acquire(std::span(&use, 1), adapter.stream(), lock)) {
      lock.unlock();
      throw_out_of_memory(adapter, *why);
    }
    adapter.engine().note_outside_write(record, lock);
    adapter.engine().pin(record);
    records.push_back(record);
    adapter.engine().release(std::span(&use, 1));
  }

  ~Pins() {
    if (records.empty()) return;
    const auto lock = adapter()->engine().lock();
    for (Record* record : records) adapter()->engine().unpin(record);
  }
};

Resident::Resident(const std::vector<at::Tensor>& tensors) : pins_(std::make_unique<Pins>()) {
  if (!is_enabled()) return;
  Storages storages;
  for (const at::Tensor& tensor : tensors) add_storages(tensor, storages);
  for (c10::StorageImpl* storage : storages) pins_->add(*adapter(), storage);
}

Resident::~Resident() = default;

}  // namespace spillway
