#include "torch/adapter.h"

#include <c10/util/intrusive_ptr.h>

#include "base/error.h"
#include "torch/frame.h"
#include "torch/interpreter.h"
#include "torch/out_of_memory.h"
#include "torch/region.h"

namespace spillway {

namespace {

std::atomic<Adapter*> the_adapter{nullptr};

c10::StorageImpl* storage_of(const Record& record) { return static_cast<c10::StorageImpl*>(record.owner); }

// Puts a DataPtr into the storage without running the old one's deleter: the block or record behind it lives on.
void replace_quietly(c10::StorageImpl& storage, at::DataPtr&& with) {
  (void)storage._mutable_data_ptr_no_checks().release_context();
  storage.set_data_ptr_noswap(std::move(with));
}

}  // namespace

Adapter* adapter() { return the_adapter.load(std::memory_order_acquire); }
void install(std::unique_ptr<Adapter> made) { the_adapter.store(made.release(), std::memory_order_release); }

void delete_block(void* data) {
  if (data == nullptr || adapter()->engine().free(data)) return;
  const auto& foreign = adapter()->options().free_foreign;
  SPILLWAY_ENSURE(foreign, "freed memory that is not ours");
  foreign(data);
}

void delete_sentinel(void* record) { adapter()->engine().died(static_cast<Record*>(record)); }

Adapter::Adapter(std::unique_ptr<Device> device, StreamId compute, const EngineOptions& engine, AdapterOptions options,
                 std::unique_ptr<BlockSource> source)
    : device_(std::move(device)), options_(std::move(options)), engine_(*device_, *this, compute, engine, std::move(source)) {}

Record* Adapter::find(c10::StorageImpl& storage) const {
  const at::DataPtr& pointer = storage._mutable_data_ptr_no_checks();
  const auto deleter = pointer.get_deleter();
  if (deleter == &delete_sentinel) return static_cast<Record*>(pointer.get_context());
  if (deleter != &delete_block || pointer.get_context() == nullptr) return nullptr;
  return engine_.find(pointer.get_context());
}

Record* Adapter::resolve(c10::StorageImpl* storage) {
  Record* record = find(*storage);
  // Away, a storage shows its record itself.
  if (record != nullptr && record->residence == Residence::resident && record->owner != storage) {
    c10::raw::weak_intrusive_ptr::incref(storage);
    engine_.adopt(record, storage);
  }
  return record;
}

Record* Adapter::try_allocate(Bytes size, StreamId on) {
  Record* record = engine_.try_allocate(size, on, current_maker());
  if (record != nullptr || current_frame() != nullptr || in_region() || records_graph()) return record;
  SecondChance chance(*this);  // nothing of this thread's is in use
  while (record == nullptr && chance.prepare(hope_for(*this, size))) record = engine_.try_allocate(size, on, nullptr);
  return record;
}

at::DataPtr Adapter::allocate(std::size_t size) {
  if (size == 0) return {nullptr, nullptr, &delete_block, options_.where};
  const Bytes bytes{static_cast<std::int64_t>(size)};
  Record* record = try_allocate(bytes, stream());
  if (record == nullptr) throw_out_of_memory(*this, bytes);
  return {record->data, record->data, &delete_block, options_.where};
}

void Adapter::waited_for_memory() {
  if (options_.clock) options_.clock->restart();
}

// Reading times waits for the last op and takes milliseconds, in which a device that has nothing else to do stands still.
StepTimes Adapter::take_times() {
  OpClock::Reading reading = options_.clock ? options_.clock->take() : nullptr;
  bool later = false;
  std::vector<Correction::Expected> expected;
  {
    const auto lock = engine_.lock();
    later = engine_.takes_times_later();
    if (options_.roofline) expected = options_.roofline->take_expected();
  }
  if (!reading) return {};
  const auto read = [this, reading = std::move(reading), expected = std::move(expected)] {
    std::vector<Nanos> times = reading();
    const auto lock = engine_.lock();
    if (options_.roofline) options_.roofline->correct(expected, times);
    return times;
  };
  return later ? StepTimes{.now = {}, .later = read} : StepTimes{.now = read()};
}

void Adapter::end_step() {
  engine_.end_step(take_times());
  if (!options_.clock || records_graph()) return;
  const auto lead = [&] { const auto lock = engine_.lock(); return engine_.wanted_lead(); }();
  if (lead > 0_ns) options_.clock->hold_back(lead);
}

void* Adapter::begin_pause() { return let_go_of_interpreter(); }
void Adapter::end_pause(void* held) { take_interpreter(held); }

void* Adapter::weak(Record& record) {
  c10::raw::weak_intrusive_ptr::incref(storage_of(record));
  return record.owner;
}

void* Adapter::hold(void* weak) {
  auto pointer = c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(weak));
  return pointer.lock().release();
}

void Adapter::unhold(void* held) {
  c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(held));
}

// While Python holds the storage object its address may be in use; the object itself outlives its last name. Counting those
// takes the interpreter's lock, and whoever has that one may be waiting for the engine's.
bool Adapter::is_named(void* held) {
  const auto* python = static_cast<c10::StorageImpl*>(held)->pyobj_slot();
  return python->load_pyobj() != nullptr && !python->has_unique_reference();
}

bool Adapter::may_detach(Record& record) {
  c10::StorageImpl* storage = storage_of(record);
  const at::DataPtr& pointer = storage->_mutable_data_ptr_no_checks();
  if (pointer.get_deleter() != &delete_block || pointer.get_context() != record.data || pointer.get() != record.data) {
    engine_.adopt(&record, nullptr);  // the memory moved to another storage: known again when that one is seen
    return false;
  }
  return true;
}

void Adapter::detach(Record& record) {
  record.stand_in = options_.slices ? options_.slices->take(record) : options_.no_access;
  replace_quietly(*storage_of(record), {record.stand_in, &record, &delete_sentinel, options_.where});
}

void Adapter::leave_stand_in(Record& record, Whereabouts now) {
  if (record.stand_in != nullptr && options_.slices) options_.slices->give_back(record.stand_in, now);
  record.stand_in = nullptr;
}

void Adapter::attach(Record& record) {
  leave_stand_in(record, Whereabouts::home);
  replace_quietly(*storage_of(record), {record.data, record.data, &delete_block, options_.where});
}

void Adapter::disown(Record& record) {
  if (record.owner == nullptr) return;
  leave_stand_in(record, Whereabouts::dead);
  c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(storage_of(record));
  record.owner = nullptr;
}

}  // namespace spillway
