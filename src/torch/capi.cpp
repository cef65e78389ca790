// The C entry points Python calls through ctypes: no Python headers, no dispatcher (a control op with a tensor argument
// would be seen by every mode).
#include "torch/capi.h"

#include <ATen/dlpack.h>
#include <c10/core/Allocator.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "torch/adapter.h"
#include "torch/faults.h"
#include "torch/key.h"
#include "torch/lean.h"
#include "torch/materialize.h"
#include "torch/phase.h"
#include "torch/region.h"
#include "torch/registration.h"
#include "torch/start.h"
#include "torch/stats_json.h"

namespace {

using namespace spillway;

thread_local std::string last_error;
thread_local std::string last_text;

// Failures become codes: 1 failed, 2 the user's input, 3 out of memory; the words are in last_error.
template <class Act>
int guarded(Act act) {
  try {
    act();
    return 0;
  } catch (const InputError& error) {
    last_error = error.what();
    return 2;
  } catch (const c10::OutOfMemoryError& error) {
    last_error = error.what_without_backtrace();
    return 3;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

Adapter& on() {
  Adapter* found = adapter();
  if (found == nullptr) throw InputError("spillway is not enabled in this process: call spillway.enable(budget=...) first");
  return *found;
}

}  // namespace

const char* spillway_last_error() { return last_error.c_str(); }

int spillway_enable(const char* options) {
  return guarded([&] { start(nlohmann::json::parse(options)); });
}

int spillway_disable() {
  return guarded([] { stop(on()); });
}

int spillway_thread_on() {
  return guarded([] { c10::impl::tls_set_dispatch_key_included(kKey, true); });
}

int spillway_thread_off() {
  return guarded([] { c10::impl::tls_set_dispatch_key_included(kKey, false); });
}

int spillway_step() {
  return guarded([] { on().end_step(); });
}

int spillway_phase(int phase) {
  return guarded([&] {
    if (phase < 0 || phase > static_cast<int>(Phase::optimizer)) throw InputError("no phase " + std::to_string(phase));
    set_phase(static_cast<Phase>(phase));
  });
}

int spillway_set_budget(long long bytes) {
  return guarded([&] { set_budget(on(), Bytes{bytes}); });
}

const char* spillway_stats() {
  if (guarded([] { last_text = stats_json(on()); }) != 0) return nullptr;
  return last_text.c_str();
}

int spillway_materialize(void* tensor, int flag) {
  return guarded([&] { 
    std::vector<Exposed> exposed;
    add_exposed(*static_cast<c10::TensorImpl*>(tensor), static_cast<Exposure>(flag), exposed);
    materialize(on(), exposed);
  });
}

int spillway_materialize_many(void* const* tensors, const int* flags, int count) {
  return guarded([&] {
    std::vector<Exposed> exposed;
    for (int i = 0; i < count; ++i) {
      add_exposed(*static_cast<c10::TensorImpl*>(tensors[i]), static_cast<Exposure>(flags[i]), exposed);
    }
    materialize(on(), exposed);
  });
}

int spillway_storage_materialize(void* storage, int flag) {
  return guarded([&] { 
    const Exposed exposed{static_cast<c10::StorageImpl*>(storage), static_cast<Exposure>(flag)};
    materialize(on(), std::span(&exposed, 1));
  });
}

int spillway_cpu_allocator(void** allocator) {
  return guarded([&] { *allocator = c10::GetAllocator(c10::kCPU); });
}

int spillway_storage_loosen(void* storage, int loose) {
  return guarded([&] { loosen(on(), *static_cast<c10::StorageImpl*>(storage), loose != 0); });
}

int spillway_storage_is_ours(void* storage, int* ours) {
  return guarded([&] {
    *ours = 0;
    Adapter* found = adapter();
    if (found == nullptr) return;
    const auto lock = found->engine().lock();
    *ours = found->find(*static_cast<c10::StorageImpl*>(storage)) != nullptr ? 1 : 0;
  });
}

int spillway_lend(void* tensor, void** loan) {
  return guarded([&] { *loan = lend(on(), *static_cast<c10::TensorImpl*>(tensor)); });
}

int spillway_end_loan(void* loan) {
  return guarded([&] { end_loan(on(), static_cast<Record*>(loan)); });
}

int spillway_end_loan_with_dlpack(void* loan, void* managed, int versioned) {
  return guarded([&] {
    auto* record = static_cast<Record*>(loan);
    if (versioned != 0) end_loan_with(on(), record, *static_cast<DLManagedTensorVersioned*>(managed));
    else end_loan_with(on(), record, *static_cast<DLManagedTensor*>(managed));
  });
}

int spillway_region_begin() {
  return guarded([] { begin_region(on().engine()); });
}

int spillway_region_end() {
  return guarded([] { end_region(on().engine()); });
}

int spillway_role(void* tensor, int kind) {
  return guarded([&] { tell_role(on(), *static_cast<c10::TensorImpl*>(tensor), static_cast<StorageKind>(kind)); });
}

int spillway_late_ops() {
  return guarded([] { register_late(); });
}

// The engine's own fork handlers have done it; the entry stays for the hook's sake.
int spillway_after_fork_child() { return 0; }

int spillway_end_trace() {
  return guarded([] { close_trace(on()); });
}

int spillway_evict_all() {
  return guarded([] { on().engine().evict_all(Leave::move); });
}

int spillway_sweep(int mode) {
  return guarded([&] { on().sweep = mode; });
}

int spillway_drop(void* tensor) {
  return guarded([&] {
    Adapter& adapter = on();
    auto lock = adapter.engine().lock();
    Record* record = adapter.find(*static_cast<c10::TensorImpl*>(tensor)->unsafe_storage().unsafeGetStorageImpl());
    lock.unlock();
    if (record == nullptr || !adapter.engine().try_drop(record)) throw InputError("this tensor's storage cannot be dropped now");
  });
}

int spillway_lean(int mode) {
  return guarded([&] {
    if (mode < 0 || mode > static_cast<int>(LeanMode::all)) throw InputError("no lean mode " + std::to_string(mode));
    set_lean_mode(static_cast<LeanMode>(mode));
  });
}

int spillway_step_aside_for_handlers() {
  return guarded([] { step_aside_for_handlers(); });
}

int spillway_watch_faults_again() {
  return guarded([] { watch_faults_again(); });
}
