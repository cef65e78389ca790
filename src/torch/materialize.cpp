#include "torch/materialize.h"

#include <ATen/dlpack.h>

#include "torch/out_of_memory.h"
#include "torch/region.h"
#include "torch/walk.h"

namespace spillway {

namespace {

// `act(record, lock)` while the bytes are home and pinned.
template <class Act>
void at_home(Adapter& adapter, c10::StorageImpl& storage, Act act) {
  Engine& engine = adapter.engine();
  auto lock = engine.lock();
  Record* record = adapter.resolve(&storage);
  if (record == nullptr) return;
  const Use use{record, false};
  if (const auto why = engine.acquire(std::span(&use, 1), adapter.stream(), lock)) {
    lock.unlock();
    throw_out_of_memory(adapter, *why);
  }
  act(record, lock);
  pin_in_region(record);
  engine.release(std::span(&use, 1));
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

void materialize(Adapter& adapter, c10::StorageImpl& storage, Exposure exposure) {
  at_home(adapter, storage, [&](Record* record, Engine::Lock& lock) {
    if (exposure != Exposure::read) adapter.engine().note_outside_write(record, lock);
    if (exposure == Exposure::for_life) adapter.engine().hold_for_life(record);
  });
}

void loosen(Adapter& adapter, c10::StorageImpl& storage, bool loose) {
  const auto lock = adapter.engine().lock();
  if (Record* record = adapter.find(storage)) record->loose = loose;
}

Record* lend(Adapter& adapter, c10::TensorImpl& tensor) {
  const Storages storages = storages_of(tensor);
  if (!adapter.options().where.is_cpu() || storages.size() != 1) {
    materialize(adapter, tensor, Exposure::for_life);
    return nullptr;
  }
  Record* loan = nullptr;
  at_home(adapter, *storages[0], [&](Record* record, Engine::Lock& lock) {
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

void materialize(Adapter& adapter, c10::TensorImpl& tensor, Exposure exposure) {
  for (c10::StorageImpl* storage : storages_of(tensor)) materialize(adapter, *storage, exposure);
}

void tell_role(Adapter& adapter, c10::TensorImpl& tensor, StorageKind kind) {
  const Storages storages = storages_of(tensor);
  const auto lock = adapter.engine().lock();
  for (c10::StorageImpl* storage : storages) {
    if (const Record* record = adapter.resolve(storage)) adapter.engine().tape().role(*record, kind);
  }
}

}  // namespace spillway
