#include "torch/materialize.h"

#include <ATen/dlpack.h>

#include "torch/out_of_memory.h"
#include "torch/region.h"
#include "torch/walk.h"

namespace spillway {

namespace {

// `act(which, record, lock)` for each of them while the bytes of all are home and pinned. `leaves_sight(which)`: its address will.
template <class LeavesSight, class Act>
void at_home_once(Adapter& adapter, std::span<c10::StorageImpl* const> storages, LeavesSight leaves_sight, Act act) {
  Engine& engine = adapter.engine();
  auto lock = engine.lock();
  c10::SmallVector<Use, 16> uses;
  c10::SmallVector<std::size_t, 16> which;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (Record* record = adapter.resolve(storages[i])) {
      if (leaves_sight(i)) engine.set_apart(record, lock);
      uses.push_back({record, false});
      which.push_back(i);
    }
  }
  if (const auto why = engine.acquire(std::span<const Use>(uses.data(), uses.size()), adapter.stream(), lock)) {
    lock.unlock();
    throw_out_of_memory(adapter, *why);
  }
  try {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      ++uses[i].record->shown;
      if (adapter.may_be_named(*storages[which[i]])) engine.note_name(uses[i].record);
      act(which[i], uses[i].record, lock);
      keep_in_region(engine, uses[i].record);
    }
  } catch (...) {  // somebody could not be rebuilt before its ingredient changes
    engine.release(uses);
    throw;
  }
  engine.release(uses);
}

template <class LeavesSight, class Act>
void at_home(Adapter& adapter, std::span<c10::StorageImpl* const> storages, LeavesSight leaves_sight, Act act) {
  SecondChance chance(adapter);
  for (;;) {
    try {
      return at_home_once(adapter, storages, leaves_sight, act);
    } catch (const TryAgain& why) {
      if (!chance.prepare(why.hope)) throw;
    }
  }
}

Storages storages_of(c10::TensorImpl& tensor) {
  Storages storages;
  add_storages(at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(&tensor)), storages);
  return storages;
}

// In place of an exported tensor's own context, until its consumer is done.
template <class Exported>
struct LentExport {
  Adapter& adapter;
  Record* loan;
  void* context;
  void (*deleter)(Exported*);

  static void end(Exported* exported) {
    const std::unique_ptr<LentExport> lent(static_cast<LentExport*>(exported->manager_ctx));
    exported->manager_ctx = lent->context;
    exported->deleter = lent->deleter;
    end_loan(lent->adapter, lent->loan);
    if (exported->deleter != nullptr) exported->deleter(exported);
  }
};

}  // namespace

void add_exposed(c10::TensorImpl& tensor, Exposure exposure, std::vector<Exposed>& into) {
  for (c10::StorageImpl* storage : storages_of(tensor)) into.push_back({storage, exposure});
}

void materialize(Adapter& adapter, std::span<const Exposed> exposed) {
  Storages storages;
  for (const Exposed& one : exposed) storages.push_back(one.storage);
  const auto for_life = [&](std::size_t which) { return exposed[which].exposure == Exposure::for_life; };
  at_home(adapter, storages, for_life, [&](std::size_t which, Record* record, Engine::Lock& lock) {
    if (exposed[which].exposure != Exposure::read) adapter.engine().note_outside_write(record, lock);
    if (exposed[which].exposure == Exposure::for_life) adapter.engine().hold_for_life(record);
  });
}

void loosen(Adapter& adapter, c10::StorageImpl& storage, bool loose) {
  const auto lock = adapter.engine().lock();
  if (Record* record = adapter.find(storage)) adapter.engine().loosen(record, loose);
}

Record* lend(Adapter& adapter, c10::TensorImpl& tensor) {
  const Storages storages = storages_of(tensor);
  if (!adapter.options().where.is_cpu() || storages.size() != 1) {
    std::vector<Exposed> exposed;
    add_exposed(tensor, Exposure::for_life, exposed);
    materialize(adapter, exposed);
    return nullptr;
  }
  Record* loan = nullptr;
  at_home(adapter, storages, [](std::size_t) { return true; }, [&](std::size_t, Record* record, Engine::Lock& lock) {
    adapter.engine().lend(record, lock);
    loan = record;
  });
  return loan;
}

void end_loan(Adapter& adapter, Record* loan) {
  auto lock = adapter.engine().lock();
  adapter.engine().end_loan(loan, lock);
}

template <class Exported>
void end_loan_with(Adapter& adapter, Record* loan, Exported& exported) {
  {
    const auto lock = adapter.engine().lock();
    Record* copy = adapter.engine().find(exported.dl_tensor.data);
    if (copy != nullptr && copy != loan) adapter.engine().hold_for_life(copy);
  }
  if (loan == nullptr) return;
  exported.manager_ctx = new LentExport<Exported>{adapter, loan, exported.manager_ctx, exported.deleter};
  exported.deleter = &LentExport<Exported>::end;
}

template void end_loan_with(Adapter&, Record*, DLManagedTensor&);
template void end_loan_with(Adapter&, Record*, DLManagedTensorVersioned&);

void tell_role(Adapter& adapter, c10::TensorImpl& tensor, StorageKind kind) {
  const Storages storages = storages_of(tensor);
  const auto lock = adapter.engine().lock();
  for (c10::StorageImpl* storage : storages) {
    if (const Record* record = adapter.resolve(storage)) adapter.engine().tape().role(*record, kind);
  }
}

}  // namespace spillway
