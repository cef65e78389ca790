#include "device/cuda/host_work.h"

#include <exception>
#include <memory>

#include "base/error.h"
#include "device/cuda/driver.h"

namespace spillway {

struct HostWork::Item {
  HostWork* owner;
  std::function<void()> work;
};

void HostWork::enqueue(CUstream on, std::function<void()> work) {
  auto item = std::make_unique<Item>(Item{this, std::move(work)});
  const auto run_item = [](void* raw) {
    const std::unique_ptr<Item> owned(static_cast<Item*>(raw));
    owned->owner->run(owned->work);
  };
  SPILLWAY_CU(cuLaunchHostFunc, on, run_item, item.get());
  (void)item.release();  // the callback's now
}

void HostWork::run(const std::function<void()>& work) noexcept {
  if (failed_.load(std::memory_order_acquire)) return;
  try {
    work();
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    failure_ = error.what();
    failed_.store(true, std::memory_order_release);
  }
}

void HostWork::throw_failure() const {
  const std::lock_guard lock(mutex_);
  throw DeviceError(failure_);
}

}  // namespace spillway
