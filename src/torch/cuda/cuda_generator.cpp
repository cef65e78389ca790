// The state of a CUDA generator: a seed and how far the counter-based stream has gone.
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <mutex>

#include "torch/cuda/cuda_allocator.h"
#include "torch/torch_recipe.h"

namespace spillway {

namespace {

class CudaState final : public GeneratorState {
 public:
  explicit CudaState(at::Generator generator) : generator_(std::move(generator)) {
    auto* impl = at::check_generator<at::CUDAGeneratorImpl>(generator_);
    const std::scoped_lock lock(impl->mutex_);
    seed_ = impl->current_seed();
    offset_ = impl->philox_offset_per_thread();
  }

  std::unique_ptr<GeneratorState> exchange() const override {
    auto before = std::make_unique<CudaState>(generator_);
    auto* impl = at::check_generator<at::CUDAGeneratorImpl>(generator_);
    const std::scoped_lock lock(impl->mutex_);
    // Setting a seed also tells cuDNN's recurrent dropout to start anew, which the plain run would not see.
    if (seed_ != before->seed_) impl->set_current_seed(seed_);
    impl->set_philox_offset_per_thread(offset_);
    return before;
  }

 private:
  at::Generator generator_;
  std::uint64_t seed_ = 0, offset_ = 0;
};

}  // namespace

// Null inside a capture: the generator's state belongs to the graph there.
std::unique_ptr<GeneratorState> save_cuda_generator(const at::Generator& generator) {
  if (is_capturing()) return nullptr;
  return std::make_unique<CudaState>(generator);
}

}  // namespace spillway
