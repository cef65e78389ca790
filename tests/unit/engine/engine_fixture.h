// An engine over real host memory, with storages that are only a pointer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>

#include "device/host/host_device.h"
#include "engine/engine.h"

namespace spillway {

inline constexpr Bytes kGranule = 64_KiB;
inline constexpr Bytes kBudget = 1_MiB;

// What torch's StorageImpl is to the adapter.
struct Storage {
  Record* record = nullptr;
  std::byte* data = nullptr;  // null: evicted
};

class TestOwner final : public Owner {
 public:
  void* weak(Record& record) override { return record.owner; }
  void* hold(void* weak) override { return weak; }
  void unhold(void*) override {}
  bool is_named(void* held) override { return named_now && named_now(*static_cast<Storage*>(held)); }
  bool may_detach(Record& record) override { return static_cast<Storage*>(record.owner)->data == record.data && !stubborn; }
  void detach(Record& record) override { static_cast<Storage*>(record.owner)->data = nullptr; }
  void attach(Record& record) override { static_cast<Storage*>(record.owner)->data = record.data; }
  void disown(Record& record) override { record.owner = nullptr; }
  void rebuild(Record& record) override { rebuild_now(record); }

  std::function<void(Record&)> rebuild_now;
  std::function<bool(Storage&)> named_now;
  bool stubborn = false;
};

class EngineTest : public testing::Test {
 protected:
  static EngineOptions options() {
    EngineOptions options;
    options.budget = kBudget;
    options.address_space = 64_MiB;
    options.granule = kGranule;
    options.alignment = 64_B;
    options.host_limit = 16_MiB;
    options.policy = ReactivePolicy::lru;
    options.leave = Leave::move;
    return options;
  }

  Storage& make(Bytes size, std::uint8_t fill) {
    Storage& storage = storages_.emplace_back();
    storage.record = engine.try_allocate(size, device.caller_stream());
    if (storage.record == nullptr) return storage;
    storage.data = storage.record->data;
    const auto lock = engine.lock();
    engine.adopt(storage.record, &storage);
    std::memset(storage.data, fill, static_cast<std::size_t>(size.count));
    return storage;
  }

  // One op on the storage: pinned, home, and let go.
  void use(Storage& storage, bool write = false) {
    const Use use{storage.record, write};
    auto lock = engine.lock();
    ASSERT_FALSE(engine.acquire(std::span(&use, 1), device.caller_stream(), lock).has_value());
    engine.release(std::span(&use, 1));
  }

  // Everybody leaves; `made` is dropped, to be made again from `source`.
  void drop(Storage& made, Storage& source, Recipe& recipe) {
    recipe.ingredients.push_back({source.record, source.record->epoch});
    recipe.outputs = {made.record};
    {
      const auto lock = engine.lock();
      engine.set_recipe(made.record, &recipe);
    }
    engine.evict_all(Leave::replay);
  }

  void lend(Storage& storage) {
    auto lock = engine.lock();
    engine.lend(storage.record, lock);
  }

  void end_loan(Storage& storage) {
    auto lock = engine.lock();
    engine.end_loan(storage.record, lock);
  }

  bool holds(const Storage& storage, Bytes size, std::uint8_t fill) {
    return std::all_of(storage.data, storage.data + size.count, [&](std::byte byte) { return byte == std::byte{fill}; });
  }

  HostDevice device{HostOptions{.granule = kGranule}};
  TestOwner owner;
  Engine engine{device, owner, device.caller_stream(), options()};
  std::deque<Storage> storages_;
};

}  // namespace spillway
