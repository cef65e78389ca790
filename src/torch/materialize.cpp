#include "torch/materialize.h"

#include "torch/out_of_memory.h"
#include "torch/region.h"
#include "torch/walk.h"

namespace spillway {

void materialize(Adapter& adapter, c10::StorageImpl& storage, Exposure exposure) {
  Engine& engine = adapter.engine();
  auto lock = engine.lock();
  Record* record = adapter.resolve(&storage);
  if (record == nullptr) return;
  const Use use{record, false};
  if (const auto why = engine.acquire(std::span(&use, 1), adapter.stream(), lock)) {
    lock.unlock();
    throw_out_of_memory(adapter, *why);
  }
  if (exposure != Exposure::read) engine.note_outside_write(record, lock);
  if (exposure == Exposure::for_life) engine.hold_for_life(record);
  pin_in_region(record);
  engine.release(std::span(&use, 1));
}

namespace {

Storages storages_of(c10::TensorImpl& tensor) {
  Storages storages;
  add_storages(at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(&tensor)), storages);
  return storages;
}

}  // namespace

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
