#include "torch/cpu_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "torch/adapter.h"

namespace spillway {

namespace {

class CpuAllocator final : public c10::Allocator {
 public:
  explicit CpuAllocator(c10::Allocator* before) : before_(before) {}

  at::DataPtr allocate(std::size_t size) override {
    Adapter* found = adapter();
    if (found == nullptr || !found->managing || !found->options().where.is_cpu()) return before_->allocate(size);
    return found->allocate(size);
  }

  // raw_allocate of a pointer made before us is freed by the caller through the deleter it got then.
  c10::DeleterFnPtr raw_deleter() const override { return &delete_any; }

  void copy_data(void* to, const void* from, std::size_t size) const override { default_copy_data(to, from, size); }

 private:
  static void delete_any(void* data);

  c10::Allocator* before_;
};

CpuAllocator* the_allocator = nullptr;

void CpuAllocator::delete_any(void* data) {
  if (data == nullptr) return;
  if (!adapter()->engine().free(data)) the_allocator->before_->raw_deallocate(data);
}

}  // namespace

void install_cpu_allocator() {
  if (the_allocator != nullptr) return;
  the_allocator = new CpuAllocator(c10::GetAllocator(c10::kCPU));
  c10::SetAllocator(c10::kCPU, the_allocator, /*priority=*/255);
}

}  // namespace spillway
