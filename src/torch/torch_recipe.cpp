#include "torch/torch_recipe.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/quick_mutex.h"
#include "torch/walk.h"

namespace spillway {

namespace {

class CpuState final : public GeneratorState {
 public:
  explicit CpuState(at::Generator generator) : generator_(std::move(generator)) {
    auto* impl = at::check_generator<at::CPUGeneratorImpl>(generator_);
    const std::scoped_lock lock(impl->mutex_);
    engine_ = impl->engine();
    float_sample_ = impl->next_float_normal_sample();
    double_sample_ = impl->next_double_normal_sample();
  }

  std::unique_ptr<GeneratorState> exchange() const override {
    auto before = std::make_unique<CpuState>(generator_);
    auto* impl = at::check_generator<at::CPUGeneratorImpl>(generator_);
    const std::scoped_lock lock(impl->mutex_);
    impl->set_engine(engine_);
    impl->set_next_float_normal_sample(float_sample_);
    impl->set_next_double_normal_sample(double_sample_);
    return before;
  }

 private:
  at::Generator generator_;
  at::mt19937 engine_;
  std::optional<float> float_sample_;
  std::optional<double> double_sample_;
};

// A tiny CPU storage is told by its bytes, a one-element view of a foreign one by that element: scalars arrive wrapped
// like this and die with the op.
bool copy_value(const at::Tensor& tensor, const c10::StorageImpl& storage, TensorFacts& facts) {
  if (!tensor.is_cpu() || tensor.numel() == 0) return false;
  if (storage.nbytes() <= facts.value.size()) {
    std::memcpy(facts.value.data(), storage.data(), storage.nbytes());
    facts.value_size = Bytes{static_cast<std::int64_t>(storage.nbytes())};
    return true;
  }
  if (tensor.numel() != 1 || tensor.itemsize() > facts.value.size()) return false;
  std::memcpy(facts.value.data(), tensor.const_data_ptr(), tensor.itemsize());
  facts.value_size = Bytes{static_cast<std::int64_t>(tensor.itemsize())};
  facts.offset = 0;
  return true;
}

// `by_record`: the bytes are not to be copied whatever their size (they are what the op changes).
bool tell(Adapter& adapter, const at::Tensor& tensor, bool by_record, TensorFacts& facts) {
  if (!is_plain(tensor) || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
  facts.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  facts.strides.assign(tensor.strides().begin(), tensor.strides().end());
  facts.offset = tensor.storage_offset();
  facts.dtype = tensor.dtype();
  facts.keys = tensor.key_set();
  facts.device = tensor.device();
  facts.wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  c10::StorageImpl* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  facts.record = adapter.resolve(storage);
  const Bytes by_value{static_cast<std::int64_t>(facts.value.size())};
  if (facts.record != nullptr && (by_record || facts.record->size > by_value || !tensor.is_cpu())) return true;
  facts.record = nullptr;
  return copy_value(tensor, *storage, facts) || storage->nbytes() == 0;
}

class Recorder {
 public:
  Recorder(Adapter& adapter, TorchRecipe& recipe) : adapter_(adapter), recipe_(recipe) {}

  bool add(std::uint16_t position, const c10::IValue& value, bool hidden_write) {
    if (hidden_write) {
      recipe_.arguments[position] = c10::IValue();  // None: see Note [Hidden writes]
      return true;
    }
    if (value.isTensor()) return add_tensor(position, -1, value.toTensor());
    if (value.isNone()) return true;
    if (value.isTensorList()) {
      const c10::List<at::Tensor> list = value.toTensorList();
      recipe_.tensors.reserve(recipe_.tensors.size() + list.size());
      std::int32_t element = 0;
      for (const at::Tensor& tensor : list) {
        if (!add_tensor(position, element++, tensor)) return false;
      }
      recipe_.arguments[position] = c10::IValue(c10::List<at::Tensor>());
      return true;
    }
    return add_optional_list(position, value);
  }

 private:
  bool add_tensor(std::uint16_t position, std::int32_t element, const at::Tensor& tensor) {
    if (!tensor.defined()) {
      if (element >= 0) return false;
      recipe_.arguments[position] = c10::IValue(at::Tensor());
      return true;
    }
    const bool changed = recipe_.in_place && position == 0;
    TensorSlot& slot = recipe_.tensors.emplace_back();
    slot.position = position;
    slot.element = element;
    return tell(adapter_, tensor, changed, slot.facts);
  }

  // Tensor?[] (index): the only other shape an aten argument with tensors has.
  bool add_optional_list(std::uint16_t position, const c10::IValue& value) {
    if (!value.isList()) return false;
    c10::List<std::optional<at::Tensor>> blanks;
    std::int32_t element = 0;
    for (const c10::IValue& entry : value.toListRef()) {
      blanks.push_back(std::nullopt);
      if (entry.isTensor() && entry.toTensor().defined() && !add_tensor(position, element, entry.toTensor())) return false;
      if (!entry.isNone() && !entry.isTensor()) return false;
      ++element;
    }
    recipe_.arguments[position] = c10::IValue(std::move(blanks));
    return true;
  }

  Adapter& adapter_;
  TorchRecipe& recipe_;
};

// What threads pass on to each other: a backward on a thread of its own forgets what the forward has recorded. Who finds it taken
// does without: a forked child may find it so for good.
struct Depot {
  static constexpr std::size_t kMost = 4096;  // a step's worth
  QuickMutex mutex;
  std::vector<TorchRecipe*> spare;
};

// Never destroyed: threads end when they like.
Depot& depot() {
  static auto* the_depot = new Depot;
  return *the_depot;
}

// One per thread, so that most recipes come and go without a lock; what is too much for one goes to the depot, many at once.
class Shelf {
 public:
  ~Shelf() { hand_in(spare_.size()); }

  TorchRecipePtr take(const c10::OperatorHandle& op, c10::DispatchKeySet keys) {
    if (spare_.empty()) fetch();
    if (spare_.empty()) return TorchRecipePtr(new TorchRecipe(op, keys));
    TorchRecipePtr recipe(spare_.back());
    spare_.pop_back();
    recipe->op = op;
    recipe->keys = keys;
    return recipe;
  }

  void put(TorchRecipe* recipe) {
    spare_.push_back(recipe);
    if (spare_.size() >= 2 * kBatch) hand_in(kBatch);
  }

 private:
  static constexpr std::size_t kBatch = 64;

  void fetch() {
    Depot& from = depot();
    const std::unique_lock lock(from.mutex, std::try_to_lock);
    if (!lock) return;
    const std::size_t count = std::min(kBatch, from.spare.size());
    spare_.assign(from.spare.end() - static_cast<std::ptrdiff_t>(count), from.spare.end());
    from.spare.resize(from.spare.size() - count);
  }

  void hand_in(std::size_t count) {
    Depot& to = depot();
    if (const std::unique_lock lock(to.mutex, std::try_to_lock); lock) {
      for (; count > 0 && to.spare.size() < Depot::kMost; --count, spare_.pop_back()) to.spare.push_back(spare_.back());
    }
    for (; count > 0; --count, spare_.pop_back()) delete spare_.back();
  }

  std::vector<TorchRecipe*> spare_;
};

thread_local Shelf shelf __attribute__((tls_model("initial-exec")));

}  // namespace

std::unique_ptr<GeneratorState> save_cuda_generator(const at::Generator& generator) __attribute__((weak));

std::unique_ptr<GeneratorState> save_generator(const c10::OperatorHandle& op, const torch::jit::Stack& stack, c10::Device where) {
  at::Generator generator;
  const std::size_t count = op.schema().arguments().size();
  for (const c10::IValue& value : c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count)) {
    if (value.isGenerator()) generator = value.toGenerator();
  }
  if (!generator.defined()) generator = at::globalContext().defaultGenerator(where);
  if (generator.device().is_cpu()) return std::make_unique<CpuState>(generator);
  return save_cuda_generator == nullptr ? nullptr : save_cuda_generator(generator);
}

bool tell_result(Adapter& adapter, const at::Tensor& result, TensorFacts& facts) {
  return result.defined() && tell(adapter, result, /*by_record=*/true, facts) && facts.record != nullptr;
}

void put_back(TorchRecipe* recipe) {
  recipe->ingredients.clear();
  recipe->outputs.clear();
  recipe->arguments.clear();
  recipe->tensors.clear();
  recipe->generator.reset();
  recipe->sides.clear();
  recipe->results.clear();
  recipe->lean = nullptr;
  recipe->twin = nullptr;
  recipe->rides = recipe->straight = false;
  shelf.put(recipe);
}

TorchRecipePtr try_record(Adapter& adapter, const c10::OperatorHandle& op, const OpTraits& traits,
                          c10::DispatchKeySet keys, const torch::jit::Stack& stack) {
  TorchRecipePtr recipe = shelf.take(op, keys);
  const auto arguments = c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - traits.arguments);
  recipe->arguments.resize(arguments.size());
  recipe->tensors.reserve(traits.tensors.size());
  recipe->arithmetic = traits.arithmetic;
  recipe->in_place = traits.replay == Replay::in_place;
  std::size_t next = 0;
  const bool hidden = writes_hidden(traits, arguments);
  Recorder recorder(adapter, *recipe);
  for (std::uint16_t at = 0; at < traits.arguments; ++at) {
    if (next < traits.tensors.size() && traits.tensors[next].position == at) {
      if (!recorder.add(at, arguments[at], hidden && traits.tensors[next].hidden_write)) return nullptr;
      ++next;
    } else {
      recipe->arguments[at] = arguments[at];
    }
  }
  recipe->grad_mode = c10::GradMode::is_enabled();
  recipe->threads = at::get_num_threads();
  if (traits.random) {
    recipe->generator = save_generator(op, stack, adapter.options().where);
    if (recipe->generator == nullptr) return nullptr;
  }
  return recipe;
}

}  // namespace spillway
