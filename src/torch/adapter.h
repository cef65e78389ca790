// Where torch and the engine meet: one per process, made by enable() and never destroyed, since registrations, deleters
// and storages outlive any moment at which that would be safe.
//
// A storage of ours is told by its DataPtr's deleter: `delete_block` (resident: context == data == the block's address)
// or `delete_sentinel` (evicted: context == its Record, data == reserved no-access pages). Anything else is foreign and
// never touched.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string>

#include "engine/engine.h"
#include "torch/no_access.h"
#include "torch/op_clock.h"
#include "torch/roofline.h"

namespace spillway {

void delete_block(void* data);
void delete_sentinel(void* record);

struct AdapterOptions {
  c10::Device where = c10::Device(c10::kCPU);
  std::byte* no_access = nullptr;                    // faults at any offset; where there are no slices
  std::unique_ptr<NoAccess> slices;                  // one for each storage that is away
  std::function<StreamId()> current_stream;          // of the calling thread
  std::function<void(void*)> free_foreign;           // memory with our deleter that is not the engine's
  std::unique_ptr<Roofline> roofline;                // what operators take on the device; none: measured as they run
  std::function<bool()> capturing;                   // the calling thread's work goes into a graph: addresses are kept
  std::unique_ptr<OpClock> clock;                    // of the device; none: the host's clock is its clock
  std::string allocator = "spillway";                // who places the device's memory, in the user's word
};

inline constexpr int kSweepDecommits = 4;

class Adapter final : public Owner {
 public:
  // `source`: as for Engine.
  Adapter(std::unique_ptr<Device> device, StreamId compute, const EngineOptions& engine, AdapterOptions options,
          std::unique_ptr<BlockSource> source = nullptr);

  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] StreamId stream() const { return options_.current_stream(); }
  [[nodiscard]] const AdapterOptions& options() const { return options_; }

  // With the lock: the record behind a storage; null when foreign or without bytes.
  [[nodiscard]] Record* find(c10::StorageImpl& storage) const;
  // The same, adopted on first sight.
  [[nodiscard]] Record* resolve(c10::StorageImpl* storage);

  void end_step();

  // Null when nothing can leave. Outside any op another attempt is made: see SecondChance.
  [[nodiscard]] Record* try_allocate(Bytes size, StreamId on);
  // Throws torch's OutOfMemoryError when nothing can leave.
  [[nodiscard]] at::DataPtr allocate(std::size_t size);

  // With or without any lock: false when Python has no object of the storage.
  [[nodiscard]] static bool may_be_named(c10::StorageImpl& storage) { return storage.pyobj_slot()->load_pyobj() != nullptr; }

  // Managing: new memory comes from us and ops are watched. Off after disable(); old blocks still find their way back.
  std::atomic<bool> managing{true};
  // Test mode: after every op everything that may leave does, by move (1) or by replay (2); with kSweepDecommits its
  // memory is given back to the device at once, so that whoever still looks there faults.
  std::atomic<int> sweep{0};
  // In test mode, with the engine's lock: the names of the operators that were run again.
  std::set<std::string> replayed;

  // Owner
  [[nodiscard]] void* weak(Record& record) override;
  [[nodiscard]] void* hold(void* weak) override;
  void unhold(void* held) override;
  [[nodiscard]] bool is_named(void* held) override;
  [[nodiscard]] bool may_detach(Record& record) override;
  void detach(Record& record) override;
  void attach(Record& record) override;
  void disown(Record& record) override;
  void rebuild(Record& record) override;
  void waited_for_memory() override;
  [[nodiscard]] bool records_graph() const override { return options_.capturing && options_.capturing(); }
  [[nodiscard]] void* begin_pause() override;
  void end_pause(void* held) override;

 private:
  [[nodiscard]] StepTimes take_times();
  void leave_stand_in(Record& record, Whereabouts now);

  std::unique_ptr<Device> device_;
  AdapterOptions options_;
  Engine engine_;
};

// The process's adapter; null before the first enable().
[[nodiscard]] Adapter* adapter();
void install(std::unique_ptr<Adapter> made);

}  // namespace spillway
