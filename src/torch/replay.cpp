// Rebuilding a dropped storage: its recipes are run again, in order, on tensors made from their facts.
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/FunctionTraits.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <unordered_map>

#include "base/error.h"
#include "engine/sides.h"
#include "torch/adapter.h"
#include "torch/draw.h"
#include "torch/frame.h"
#include "torch/fused.h"
#include "torch/key.h"
#include "torch/lean.h"
#include "torch/out_of_memory.h"
#include "torch/torch_recipe.h"

namespace spillway {

namespace {

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

// What runs again is nobody's to see: neither ours, nor a dispatch mode's of the program, which may be on where no operator is (a
// read through numpy, say) and would count or record it.
constexpr c10::DispatchKeySet kOutOfSight = c10::DispatchKeySet(kKey) | c10::python_ks;

at::Tensor tensor_over(const StoragePtr& storage, const TensorFacts& facts) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage), facts.keys, facts.dtype);
  impl->set_storage_offset(facts.offset);
  impl->set_sizes_and_strides(facts.sizes, facts.strides);
  if (facts.wrapped_number) impl->set_wrapped_number(true);
  return at::Tensor(std::move(impl));
}

StoragePtr storage_over(std::byte* data, Bytes size, c10::Device device) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<std::int64_t>(size.count),
                                               at::DataPtr(data, device), nullptr, false);
}

// The generator as it was when the op first ran, and back again: the stream of later numbers must not notice.
class GeneratorGuard {
 public:
  GeneratorGuard(Engine& engine, const GeneratorState* state) {
    if (state == nullptr) return;
    draw_.emplace(engine);
    before_ = state->exchange();
  }
  ~GeneratorGuard() {
    if (before_) (void)before_->exchange();
  }
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

 private:
  std::optional<Draw> draw_;
  std::unique_ptr<GeneratorState> before_;
};

// Note [As many threads]
// A long sum is cut into as many parts as there are threads, and rounded by them: a matrix product over 8192 has other
// bits on one thread than on two. So an op runs again on as many as at first, whatever torch.set_num_threads said since.
// In a forked child the forking thread's team is gone, and OpenMP would wait for it: there a thread of its own, with a team
// of its own, runs the op.
template <class Work>
void run_on_threads(int threads, bool child, Work work) {
  const int now = at::get_num_threads();
  if (threads == now) return work();
  std::exception_ptr failed;
  const auto run = [&] {
    at::set_num_threads(threads);
    try {
      work();
    } catch (...) {
      failed = std::current_exception();
    }
    at::set_num_threads(now);
  };
  if (child) {
    const at::ThreadLocalState state;
    std::thread([&] {
      const at::ThreadLocalStateGuard same(state);
      run();
    }).join();
  } else {
    run();
  }
  if (failed) std::rethrow_exception(failed);
}

// One rebuild: dead ancestors become temporaries that live as long as it runs; between its ops they may leave and come back.
class Rebuild {
 public:
  Rebuild(Adapter& adapter, const Record& target) : adapter_(adapter), engine_(adapter.engine()), target_(target) {}
  ~Rebuild() {
    const auto lock = engine_.lock();
    for (const auto& [gone, temporary] : temporaries_) engine_.return_sides({&temporary, 1});
  }
  Rebuild(const Rebuild&) = delete;
  Rebuild& operator=(const Rebuild&) = delete;

  // Runs every recipe of the record; the storage returned owns the bytes.
  StoragePtr make(const Record& record) {
    StoragePtr made;
    // A copy: the record's list may change while the lock is not held, its recipes live as long as it does.
    const std::vector<Recipe*> recipes = record.recipes;
    const auto chain = find_fused_chain(recipes);
    if (chain && !(chain->reader != nullptr && temporaries_.contains(chain->source))) made = run_at_once(*chain, record);
    if (made) return made;
    for (Recipe* recipe : recipes) made = run(static_cast<TorchRecipe&>(*recipe), record, made);
    return made;
  }

  void finish(Record& record, const StoragePtr& made) {
    const auto lock = engine_.lock();
    hand_over(record, made, replays_);
  }

 private:
  void hand_over(Record& record, const StoragePtr& made, std::span<const ReplayNote> replays) {
    engine_.finish_rebuild(&record, taken_from(made), replays);
  }

  // The storage's memory, which is no longer its own.
  Record* taken_from(const StoragePtr& made) {
    at::DataPtr& pointer = made->_mutable_data_ptr_no_checks();
    SPILLWAY_ENSURE(pointer.get_deleter() == &delete_block, "a rebuilt storage is not made of our memory");
    Record* record = engine_.find(pointer.get_context());
    if (record->owner != nullptr) engine_.adopt(record, nullptr);
    (void)pointer.release_context();
    return record;
  }

  // What an op that runs again reads for this: the record itself or, where that is gone, its temporary.
  Record* source_of(Record* record) const { return record->residence == Residence::gone ? temporaries_.at(record) : record; }

  // The record an output of the recipe belongs to may be evicted, dropped or dead by now; only `wanted` is.
  StoragePtr run(TorchRecipe& recipe, const Record& wanted, const StoragePtr& so_far) {
    for (const TensorSlot& slot : recipe.tensors) {
      Record* source = slot.facts.record;
      if (source != nullptr && source != &wanted && source->residence == Residence::gone) temporary(*source);
    }
    const Sides sides(engine_, recipe, wanted);
    c10::SmallVector<Use, 8> uses;
    for (Record* side : sides.records()) uses.push_back({side, false});
    auto lock = engine_.lock();
    for (const TensorSlot& slot : recipe.tensors) {
      Record* source = slot.facts.record;
      if (source != nullptr && source != &wanted) uses.push_back({source_of(source), false});
    }
    if (const auto why = engine_.acquire(uses, adapter_.stream(), lock)) {
      lock.unlock();
      throw_out_of_memory(adapter_, *why);
    }
    torch::jit::Stack stack = arguments(recipe, wanted, so_far);
    std::vector<at::Tensor> beside;
    for (std::size_t at = 0; at < sides.records().size(); ++at) beside.push_back(tensor(recipe.results[at + 1], wanted, so_far));
    lock.unlock();
    StoragePtr made;
    try {
      made = execute(recipe, wanted, stack, beside, uses);
    } catch (...) {
      stack.clear();
      lock.lock();
      engine_.release(uses);
      throw;
    }
    stack.clear();  // without the lock: tensors die here
    beside.clear();
    if (recipe.in_place) made = so_far;
    lock.lock();
    engine_.release(uses);
    note(wanted, made);
    bring_siblings_home(recipe);
    lock.unlock();
    siblings_.clear();  // their memory is another's from here on
    return made;
  }

  // What the op made beside, and somebody has dropped.
  void bring_siblings_home(const Recipe& recipe) {
    const ReplayNote beside{latest_.op, latest_.start, 0_ns};  // its time is told already
    for (const auto& [position, storage] : siblings_) {
      Record* sibling = recipe.outputs[position];
      if (sibling != nullptr && comes_home_beside(*sibling)) hand_over(*sibling, storage, {&beside, 1});
    }
  }

  // Null when its sides are not there: then the ops run one by one.
  StoragePtr run_at_once(const FusedChain& chain, const Record& wanted) {
    std::vector<const TensorFacts*> inputs;
    for (const TensorSlot& slot : chain.maker->tensors) inputs.push_back(&slot.facts);
    if (chain.added != nullptr) inputs.push_back(chain.added);
    for (const TensorFacts* facts : inputs) {
      if (facts->record != nullptr && facts->record->residence == Residence::gone) temporary(*facts->record);
    }
    const Sides sides(engine_, *chain.maker, chain.reader != nullptr ? *chain.source : wanted);
    if (sides.records().empty()) return nullptr;
    c10::SmallVector<Use, 8> uses;
    for (Record* side : sides.records()) uses.push_back({side, false});
    auto lock = engine_.lock();
    for (const TensorFacts* facts : inputs) {
      if (facts->record != nullptr) uses.push_back({source_of(facts->record), false});
    }
    if (const auto why = engine_.acquire(uses, adapter_.stream(), lock)) {
      lock.unlock();
      throw_out_of_memory(adapter_, *why);
    }
    std::optional<FusedCall> call = fused_call(chain, wanted);
    lock.unlock();
    StoragePtr made;
    try {
      made = execute(*call, uses);
    } catch (...) {
      call.reset();
      lock.lock();
      engine_.release(uses);
      throw;
    }
    call.reset();  // without the lock: tensors die here
    lock.lock();
    engine_.release(uses);
    if (made) note(wanted, made);
    return made;
  }

  FusedCall fused_call(const FusedChain& chain, const Record& wanted) {
    FusedCall call{.chain = chain};
    const auto places = chain.places();
    for (const TensorSlot& slot : chain.maker->tensors) {
      at::Tensor* const into[] = {&call.x, &call.weight, &call.bias};
      const auto found = std::ranges::find(places, slot.position);
      if (found != places.end()) *into[found - places.begin()] = tensor(slot.facts, wanted, nullptr);
    }
    for (std::size_t side = 0; side < chain.maker->lean->sides; ++side) call.sides[side] = tensor(chain.maker->results[side + 1], wanted, nullptr);
    if (chain.added != nullptr) call.z = tensor(*chain.added, wanted, nullptr);
    return call;
  }

  StoragePtr execute(const FusedCall& call, std::span<const Use> uses) {
    const TorchRecipe& shown = call.chain.reader != nullptr ? *call.chain.reader : *call.chain.maker;
    const FrameGuard frame(shown.op, uses, /*replay=*/true);
    const c10::impl::ExcludeDispatchKeyGuard out_of_sight{kOutOfSight};
    const Nanos begin = adapter_.device().now();
    const at::Tensor made = run_fused(call);
    if (!made.defined()) return nullptr;
    latest_ = {shown.traced, begin, adapter_.device().now() - begin, /*lean=*/true};
    return StoragePtr::reclaim_copy(made.storage().unsafeGetStorageImpl());
  }

  // What was run for the record itself is told when it has the bytes; what was run on the way, of the temporary it made.
  void note(const Record& wanted, const StoragePtr& made) {
    const bool own = &wanted == &target_;
    if (own) replays_.push_back(latest_);
    engine_.note_replay(own || !made ? nullptr : engine_.find(made->data_ptr().get_context()), latest_);
  }

  StoragePtr execute(TorchRecipe& recipe, const Record& wanted, torch::jit::Stack& stack, std::span<const at::Tensor> sides,
                     std::span<const Use> uses) {
    const FrameGuard frame(recipe.op, uses, /*replay=*/true);
    const c10::impl::ExcludeDispatchKeyGuard out_of_sight{kOutOfSight};
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::AutoGradMode grad(recipe.grad_mode);
    const Nanos begin = adapter_.device().now();
    const bool lean = sides.empty() ? try_twin(recipe, wanted, stack) : try_lean(recipe, stack, sides);
    if (!lean) {
      const GeneratorGuard generator(engine_, recipe.generator.get());
      run_on_threads(recipe.threads, engine_.is_child(), [&] { recipe.op.redispatchBoxed(recipe.keys, &stack); });
    }
    latest_ = {recipe.traced, begin, adapter_.device().now() - begin, lean};
    std::vector<Record*> outputs;
    {
      const auto lock = engine_.lock();
      // Once in test mode all count: results are read after it is off.
      if (!adapter_.replayed.empty() || adapter_.sweep.load(std::memory_order_relaxed) != 0) {
        adapter_.replayed.insert(toString(recipe.op.operator_name()));
      }
      outputs = recipe.outputs;
    }
    return pick(outputs, wanted, stack);
  }

  // Leaves the first result on the stack, alone; false, and the stack is as it was.
  static bool try_lean(const TorchRecipe& recipe, torch::jit::Stack& stack, std::span<const at::Tensor> sides) {
    at::Tensor made = run_lean({.recipe = recipe, .arguments = stack, .sides = sides});
    if (!made.defined()) return false;
    stack.clear();
    stack.emplace_back(std::move(made));
    return true;
  }

  // Leaves the results on the stack, those nobody wants undefined; false, and the stack is as it was: the op has no twin.
  bool try_twin(const TorchRecipe& recipe, const Record& wanted, torch::jit::Stack& stack) {
    if (recipe.twin == nullptr) return false;
    c10::SmallVector<bool, 2> needed;
    {
      const auto lock = engine_.lock();
      for (const Record* made : recipe.outputs) needed.push_back(made == &wanted || (made != nullptr && comes_home_beside(*made)));
    }
    const TwinResults made = recipe.twin->run({.recipe = recipe, .arguments = stack, .wanted = {needed.data(), needed.size()}});
    stack.assign(made.begin(), made.end());
    return true;
  }

  static bool comes_home_beside(const Record& sibling) { return sibling.residence == Residence::dropped && sibling.recipes.size() == 1; }

  StoragePtr pick(const std::vector<Record*>& outputs, const Record& wanted, const torch::jit::Stack& stack) {
    StoragePtr made;
    std::size_t position = 0;
    const auto look = [&](const at::Tensor& tensor) {
      const std::size_t at = position++;
      if (!tensor.defined() || at >= outputs.size() || outputs[at] == nullptr) return;
      StoragePtr storage = StoragePtr::reclaim_copy(tensor.storage().unsafeGetStorageImpl());
      if (outputs[at] == &wanted) made = std::move(storage);
      else siblings_.emplace_back(at, std::move(storage));
    };
    for (const c10::IValue& value : stack) {
      if (value.isTensor()) look(value.toTensor());
      else if (value.isTensorList()) for (const at::Tensor& tensor : value.toTensorList()) look(tensor);
    }
    return made;
  }

  void temporary(Record& gone) {
    if (temporaries_.contains(&gone)) return;
    const StoragePtr made = make(gone);
    const auto lock = engine_.lock();
    Record* record = taken_from(made);
    engine_.keep_temporary(record);
    temporaries_.emplace(&gone, record);
  }

  at::Tensor tensor(const TensorFacts& facts, const Record& wanted, const StoragePtr& so_far) {
    if (facts.record == &wanted) return tensor_over(so_far, facts);
    if (facts.record != nullptr) {
      const Record* source = source_of(facts.record);
      return tensor_over(storage_over(source->data, source->size, facts.device), facts);
    }
    auto* value = const_cast<std::byte*>(facts.value.data());
    return tensor_over(storage_over(facts.value_size > 0_B ? value : nullptr, facts.value_size, facts.device), facts);
  }

  torch::jit::Stack arguments(const TorchRecipe& recipe, const Record& wanted, const StoragePtr& so_far) {
    torch::jit::Stack stack(recipe.arguments.begin(), recipe.arguments.end());
    for (c10::IValue& value : stack) {
      if (value.isTensorList()) value = c10::IValue(c10::List<at::Tensor>());
      else if (value.isList() && value.toListRef().size() > 0 && value.toListRef()[0].isNone()) value = c10::IValue(value.toList().copy());
    }
    for (const TensorSlot& slot : recipe.tensors) {
      at::Tensor made = tensor(slot.facts, wanted, so_far);
      c10::IValue& value = stack[static_cast<std::size_t>(slot.position)];
      if (slot.element < 0) value = c10::IValue(std::move(made));
      else if (value.isTensorList()) value.toTensorList().push_back(std::move(made));
      else value.toList().set(static_cast<std::size_t>(slot.element), c10::IValue(std::move(made)));
    }
    return stack;
  }

  Adapter& adapter_;
  Engine& engine_;
  const Record& target_;
  ReplayNote latest_;
  std::vector<ReplayNote> replays_;  // for the target
  std::unordered_map<const Record*, Record*> temporaries_;
  std::vector<std::pair<std::size_t, StoragePtr>> siblings_;  // of the latest run, by position
};

}  // namespace

void Adapter::rebuild(Record& record) {
  Rebuild rebuild(*this, record);
  const StoragePtr made = rebuild.make(record);
  rebuild.finish(record, made);
}

}  // namespace spillway
