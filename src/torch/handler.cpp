#include "torch/handler.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "torch/adapter.h"
#include "torch/draw.h"
#include "torch/frame.h"
#include "torch/fused.h"
#include "torch/key.h"
#include "torch/lean.h"
#include "torch/out_of_memory.h"
#include "torch/phase.h"
#include "torch/region.h"
#include "torch/split.h"
#include "torch/torch_recipe.h"
#include "torch/walk.h"

namespace spillway {

namespace {

using Stack = torch::jit::Stack;
using Uses = c10::SmallVector<Use, 16>;
using Ids = c10::SmallVector<StorageId, 16>;

// What the op is, and how large its arguments are: the same in every run.
OpKey key_of(const OpTraits& traits, std::span<const Use> uses) {
  constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15ull;
  OpKey key{.shape = (traits.key ^ uses.size()) * kSpread, .sized = traits.key};
  for (const Use& use : uses) key.sized = (key.sized ^ static_cast<std::uint64_t>(use.record->size.count)) * kSpread;
  return key;
}

// One operator call from its arguments to its results.
class Call {
 public:
  // `again`: it was tried before, and the engine knows that it comes.
  Call(Adapter& adapter, const c10::OperatorHandle& op, const OpTraits& traits, Stack& stack, bool again = false)
      : adapter_(adapter), engine_(adapter.engine()), op_(op), traits_(traits), stack_(stack), again_(again) {}

  template <class Kernel>
  void run(c10::DispatchKeySet keys, Kernel kernel) {
    if (traits_.view && is_mere_view()) return run_view(kernel);
    enter(keys);
    started_ = true;
    try {
      const FrameGuard frame(op_, uses_, /*replay=*/false);
      const c10::impl::ExcludeDispatchKeyGuard unit{c10::DispatchKeySet(kKey)};
      kernel();
    } catch (...) {
      const auto lock = engine_.lock();
      abandon_writes();
      engine_.end_op();
      engine_.release(uses_);
      throw;
    }
    draw_.reset();
    leave();
  }

  // The kernel has run, perhaps not to its end.
  [[nodiscard]] bool started() const { return started_; }
  // Whether nothing is left of it but what its generator drew, and that is taken back by end().
  [[nodiscard]] bool may_end() const { return !started_ || !traits_.random || generator_ != nullptr; }
  void end() {
    if (started_ && generator_) (void)generator_->exchange();
    draw_.reset();
  }

 private:
  using Lock = Engine::Lock;

  // Whose storage is away can be looked at another way all the same: nobody comes home for a detach or a transpose.
  template <class Kernel>
  void run_view(Kernel kernel) {
    const bool ends = engine_.follows_ops() && begin_view();
    started_ = true;
    {
      const FrameGuard frame(op_, uses_, /*replay=*/false);
      const c10::impl::ExcludeDispatchKeyGuard unit{c10::DispatchKeySet(kKey)};
      kernel();
    }
    if (ends) end_view();
    sweep();
  }

  // False: nobody wants to know of its end.
  [[nodiscard]] bool begin_view() {
    auto lock = engine_.lock();
    if (!is_followed()) return false;
    find_uses();
    steer(lock);
    if (!engine_.wants_ops()) return engine_.wants_after();
    clock_ = engine_.begin_op();
    begin_ = adapter_.device().now();
    return true;
  }

  void end_view() {
    auto lock = engine_.lock();
    find_outputs();
    if (engine_.wants_ops()) trace();
    engine_.end_op();
    if (engine_.steers()) engine_.steer_after(uses_, {outputs_.data(), outputs_.size()}, lock);
  }

  [[nodiscard]] bool is_mere_view() const {
    const c10::IValue& base = stack_[stack_.size() - traits_.arguments];
    return base.isTensor() && base.toTensor().defined() && is_plain(base.toTensor()) && !in_region() && !adapter_.records_graph();
  }

  [[nodiscard]] bool is_followed() const { return engine_.steers() || engine_.wants_ops(); }

  void steer(Lock& lock) {
    key_ = key_of(traits_, uses_);
    if (!again_) engine_.steer_before(key_, current_phase(), lock);
  }

  void enter(c10::DispatchKeySet keys) {
    auto lock = engine_.lock();
    find_uses();
    if (is_followed()) steer(lock);
    const auto why = engine_.acquire(std::span<const Use>(uses_.data(), uses_.size()), adapter_.stream(), lock);
    if (why) {
      lock.unlock();
      const FrameGuard frame(op_, uses_, /*replay=*/false);
      throw_out_of_memory(adapter_, *why);
    }
    if (traits_.random) {  // see Note [One draws at a time]
      lock.unlock();
      draw_.emplace(engine_);
      lock.lock();
      if (engine_.may_lack_memory()) generator_ = save_generator(op_, stack_, adapter_.options().where);
    }
    // Now that the arguments are here: small ones are recorded by value. Only what the op writes has a new epoch, and
    // that is never an ingredient.
    if (wants_recipe()) recipe_ = try_record(adapter_, op_, traits_, keys, stack_);
    if (recipe_) note_epochs();
    clock_ = engine_.begin_op();
    if (measures()) begin_ = adapter_.device().now();
    timed_ = engine_.wants_times() && adapter_.options().clock && !adapter_.records_graph() && adapter_.options().clock->start();
    if (traits_.splits) find_lists();
  }

  void find_lists() {
    lists_ = list_bytes(c10::ArrayRef<c10::IValue>(stack_).slice(stack_.size() - traits_.arguments), [&](c10::StorageImpl* storage) {
      const Record* record = adapter_.find(*storage);
      return record == nullptr || engine_.stays(*record) ? 0_B : record->block.range.length();
    });
  }

  void find_uses() {
    const auto arguments = c10::ArrayRef<c10::IValue>(stack_).slice(stack_.size() - traits_.arguments);
    for (const TensorArgument& argument : traits_.tensors) {
      const bool write = argument.write && (!argument.hidden_write || writes_hidden(traits_, arguments));
      for_each_record(arguments[argument.position], [&](Record* record) { uses_.push_back({record, write}); });
    }
  }

  [[nodiscard]] bool wants_recipe() const {
    if (traits_.replay == Replay::never || !engine_.wants_recipes() || in_region()) return false;
    // In place: only a storage whose making is known can take one more line.
    return traits_.replay == Replay::fresh || (!uses_.empty() && uses_[0].write && !uses_[0].record->recipes.empty());
  }

  [[nodiscard]] bool measures() const { return engine_.wants_ops() || (recipe_ && !adapter_.options().roofline); }

  // Whoever has the address of an ingredient may change its bytes unseen: nothing can be rebuilt from those.
  void note_epochs() {
    Record* self = recipe_->in_place ? uses_[0].record : nullptr;
    for (const TensorSlot& slot : recipe_->tensors) {
      Record* record = slot.facts.record;
      if (record == nullptr || record == self) continue;
      recipe_->ingredients.push_back({record, record->exposed() ? Ingredient::kUntrusted : record->epoch});
    }
  }

  // A failed op may have written half: what it wrote can no longer be rebuilt.
  void abandon_writes() {
    for (const Use& use : uses_) {
      if (use.write) engine_.clear_recipes(use.record);
    }
  }

  void leave() {
    thread_local std::vector<Recipe*> dying __attribute__((tls_model("initial-exec")));
    if (timed_) adapter_.options().clock->stop();
    {
      auto lock = engine_.lock();
      note_floor(lock);
      find_outputs();
      if (recipe_ && traits_.lean) find_lean();
      if (recipe_ && recipe_->in_place) find_ride();
      if (recipe_ && traits_.straight) find_straight();
      if (timed_ && adapter_.options().roofline) adapter_.options().roofline->expect(recipe_.get(), engine_.made_in_op());
      if (engine_.wants_ops()) trace();
      keep_recipe();
      hold_what_leaves_sight();
      engine_.end_op();
      engine_.release(uses_);
      if (engine_.steers()) engine_.steer_after(uses_, {outputs_.data(), outputs_.size()}, lock);
      engine_.take_dying(dying);
    }
    for (Recipe* recipe : dying) put_back(static_cast<TorchRecipe*>(recipe));
    dying.clear();
    sweep();
  }

  // For tests: everybody leaves after every op.
  void sweep() {
    if (const int mode = adapter_.sweep.load(std::memory_order_relaxed); mode != 0) [[unlikely]] {
      engine_.evict_all((mode & 2) == 0 ? Leave::move : Leave::replay);
      if ((mode & kSweepDecommits) != 0) engine_.trim(/*wait=*/true);
    }
  }

  void trace() {
    Ids inputs, mutated, outputs, aliased;
    for (const Record* record : outputs_) outputs.push_back(record->id);
    for (const Use& use : uses_) {
      (use.write ? mutated : inputs).push_back(use.record->id);
      if (std::find(outputs_.begin(), outputs_.end(), use.record) != outputs_.end()) aliased.push_back(use.record->id);
    }
    const auto view = [](const Ids& ids) { return std::span<const StorageId>(ids.data(), ids.size()); };
    engine_.note_step_op({.name = op_.schema().name(), .phase = current_phase(), .stream = adapter_.stream(), .start = begin_,
                       .duration = adapter_.device().now() - begin_, .transient = engine_.peak_in_op(),
                       .timed = timed_, .lean = recipe_ && (recipe_->lean != nullptr || recipe_->rides || recipe_->straight) ? recipe_->lean_time : 0_ns, .again = again_time_, .replayable = traits_.replay != Replay::never, .why_not = why_not(), .inputs = view(inputs),
                       .outputs = view(outputs), .mutated = view(mutated), .aliased = view(aliased)}, key_);
  }

  [[nodiscard]] std::string_view why_not() const {
    if (traits_.replay == Replay::never) return traits_.why_not;
    if (in_region()) return "kernels out of our sight run around it, in a compiled graph, say";
    if (!engine_.wants_recipes() || recipe_) return {};
    return traits_.replay == Replay::in_place ? "it writes a storage whose making is not known" : "an argument cannot be kept as facts";
  }

  // Lists count with their largest element: under a tight budget the others need not be there.
  void note_floor(Lock& lock) {
    const std::string& name = op_.operator_name().name;
    const Bytes transient = engine_.peak_in_op(), outputs = engine_.made_in_op();
    if (lists_.share > 0) {
      const auto part = [&](Bytes bytes) { return Bytes{static_cast<std::int64_t>(static_cast<double>(bytes.count) * lists_.share)}; };
      engine_.note_op({.inputs = lists_.largest, .outputs = part(outputs), .transient = part(transient)}, name, lock);
    } else {
      engine_.note_op({.inputs = input_bytes(), .outputs = outputs, .transient = transient}, name, lock);
    }
  }

  [[nodiscard]] Bytes input_bytes() const {
    Bytes sum;
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const Record* record = uses_[i].record;
      bool seen = engine_.stays(*record);  // counted as what cannot leave
      for (std::size_t j = 0; j < i && !seen; ++j) seen = uses_[j].record == record;
      if (!seen) sum += record->block.range.length();
    }
    return sum;
  }

  void find_outputs() {
    for (const c10::IValue& value : results()) for_each_record(value, [&](Record* record) { outputs_.push_back(record); });
  }

  template <class Visit>
  void for_each_record(const c10::IValue& value, Visit visit) {
    storages_.clear();
    add_storages(value, storages_);
    for (c10::StorageImpl* storage : storages_) {
      if (Record* record = adapter_.resolve(storage)) visit(record);
    }
  }

  [[nodiscard]] c10::ArrayRef<c10::IValue> results() const {
    return c10::ArrayRef<c10::IValue>(stack_).slice(stack_.size() - traits_.results);
  }

  void keep_recipe() {
    const bool in_place = recipe_ && recipe_->in_place;
    for (const Use& use : uses_) {
      if (use.write && !(in_place && use.record == uses_[0].record)) engine_.clear_recipes(use.record);
    }
    if (!recipe_) return;
    recipe_->time = again_time_ > 0_ns ? again_time_ : time_taken(engine_.made_in_op());
    recipe_->step = engine_.step();
    recipe_->traced = engine_.tape().latest_op();
    if (in_place) {
      recipe_->outputs = {uses_[0].record};
      engine_.append_recipe(uses_[0].record, recipe_.release());
      return;
    }
    set_outputs();
  }

  [[nodiscard]] Nanos time_taken(Bytes made) const {
    const auto& roofline = adapter_.options().roofline;
    return roofline ? roofline->estimate(*recipe_, made) : adapter_.device().now() - begin_;
  }

  // Whether a rule knows a cheaper way to the first result, and what it would read beside the op's arguments, or one to all.
  void find_lean() {
    Bytes bytes;
    for (const c10::IValue& value : results()) {
      TensorFacts& facts = recipe_->results.emplace_back();
      if (!value.isTensor() || !tell_result(adapter_, value.toTensor(), facts) || facts.record->born < clock_) return;
      bytes += facts.record->size;
    }
    const auto& roofline = adapter_.options().roofline;
    recipe_->twin = roofline ? find_twin_rule(*recipe_, adapter_.options().where.type()) : nullptr;
    if (recipe_->twin != nullptr) again_time_ = roofline->estimate_pass(*recipe_, bytes);
    if (recipe_->results[0].record->size < engine_.options().smallest) return;
    recipe_->lean = find_lean_rule(*recipe_, adapter_.options().where.type());
    if (recipe_->lean == nullptr) return;
    recipe_->lean_time = roofline ? roofline->estimate_pass(*recipe_, bytes) : time_taken({}) * recipe_->lean->percent / 100;
    for (std::uint16_t at = 1; at < recipe_->results.size(); ++at) recipe_->sides.push_back({at, recipe_->results[at].record->epoch});
  }

  // In one pass with what made the storage: only what it reads beside it costs.
  void find_ride() {
    const auto& roofline = adapter_.options().roofline;
    recipe_->rides = roofline && rides_along(uses_[0].record->recipes, *recipe_);
    if (!recipe_->rides) return;
    Bytes read;
    for (const Ingredient& ingredient : recipe_->ingredients) read += ingredient.record->size;
    recipe_->lean_time = roofline->estimate_pass(*recipe_, read) - roofline->estimate_pass(*recipe_, 0_B) + 1_ns;
  }

  // In one pass with what made one of its arguments, once that is dead.
  void find_straight() {
    const auto& roofline = adapter_.options().roofline;
    const c10::IValue& value = results()[0];
    const TensorFacts* source = roofline ? find_source(*recipe_) : nullptr;
    if (source == nullptr || !value.isTensor()) return;
    TensorFacts& made = recipe_->results.emplace_back();
    recipe_->straight = tell_result(adapter_, value.toTensor(), made) && made.record->born >= clock_ && may_read_straight(*recipe_, *source);
    if (!recipe_->straight) return;
    recipe_->lean_time = roofline->estimate_pass(*recipe_, made.record->size);
    std::swap(recipe_->ingredients.front(), *std::ranges::find(recipe_->ingredients, source->record, &Ingredient::record));
  }

  // Records born in this op: outputs that are nobody's view and large enough to leave.
  void set_outputs() {
    c10::SmallVector<Record*, 8> born;
    const auto look = [&](const at::Tensor& tensor) {
      Record* record = tensor.defined() && is_plain(tensor) ? adapter_.resolve(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()) : nullptr;
      // A side may be small: the recipe forgets it by being its recipe.
      const bool large = record != nullptr && (record->size >= engine_.options().smallest || recipe_->lean != nullptr);
      const bool fresh = large && record->born >= clock_;
      recipe_->outputs.push_back(fresh && std::find(born.begin(), born.end(), record) == born.end() ? record : nullptr);
      if (recipe_->outputs.back() != nullptr) born.push_back(record);
    };
    for (const c10::IValue& value : results()) {
      if (value.isTensor()) look(value.toTensor());
      else if (value.isTensorList()) for (const at::Tensor& tensor : value.toTensorList()) look(tensor);
    }
    if (born.empty()) return;
    Recipe* recipe = recipe_.release();
    for (Record* record : born) engine_.set_recipe(record, recipe);
  }

  void hold_what_leaves_sight() {
    const bool captured = adapter_.records_graph();
    if (!traits_.keeps_arguments && !in_region() && !captured) return;
    for (const Use& use : uses_) {
      if (traits_.keeps_arguments || captured) engine_.hold_for_life(use.record);
      keep_in_region(engine_, use.record);
    }
    for (Record* record : outputs_) keep_in_region(engine_, record);
  }

  Adapter& adapter_;
  Engine& engine_;
  const c10::OperatorHandle& op_;
  const OpTraits& traits_;
  Stack& stack_;
  const bool again_;
  Uses uses_;
  Storages storages_;
  c10::SmallVector<Record*, 16> outputs_;
  OpKey key_;
  bool timed_ = false;
  TorchRecipePtr recipe_;
  Nanos again_time_;  // by the recipe's twin
  std::uint64_t clock_ = 0;
  ListBytes lists_;
  Nanos begin_;
  bool started_ = false;
  std::optional<Draw> draw_;
  std::unique_ptr<GeneratorState> generator_;  // as it was before the kernel
};

// The arguments of an op that may have to run once more. Not if it may have written.
class Attempt {
 public:
  Attempt(const OpTraits& traits, const Stack& stack) : writes_(std::ranges::any_of(traits.tensors, &TensorArgument::write)) {
    if (!writes_) arguments_.append(stack.end() - traits.arguments, stack.end());
  }

  [[nodiscard]] bool may_come_again(bool started) const { return !started || !writes_; }

  // `below`: how much of the stack is others'.
  void put_back(Stack& stack, std::size_t below) const {
    stack.resize(below);
    stack.insert(stack.end(), arguments_.begin(), arguments_.end());
  }

 private:
  const bool writes_;
  c10::SmallVector<c10::IValue, 12> arguments_;  // a failed kernel may have taken its own apart
};

// Runs the op, once more where that may help.
template <class Kernel>
void run_op(Adapter& adapter, const c10::OperatorHandle& op, const OpTraits& traits, c10::DispatchKeySet keys, Stack& stack, Kernel kernel) {
  if (!adapter.engine().may_lack_memory()) return Call(adapter, op, traits, stack).run(keys, kernel);
  const std::size_t below_arguments = stack.size() - traits.arguments;
  const Attempt attempt(traits, stack);
  const ComesAgain comes_again(attempt.may_come_again(/*started=*/true));
  SecondChance chance(adapter);
  for (bool again = false;; again = true) {
    Call call(adapter, op, traits, stack, again);
    const auto prepare = [&](Hope hope) {
      if (!hope.any() || !attempt.may_come_again(call.started()) || !call.may_end()) return false;
      call.end();
      if (call.started()) attempt.put_back(stack, below_arguments);
      return chance.prepare(hope);
    };
    try {
      return call.run(keys, kernel);
    } catch (const TryAgain& why) {
      if (!prepare(why.hope)) throw;
    } catch (const WorkspaceShortage& why) {
      if (!prepare(why.hope)) throw;
    }
  }
}

// Pins the storages of a value as long as it lives.
class Stay {
 public:
  Stay(Adapter& adapter, const c10::IValue& value) : engine_(adapter.engine()) {
    Storages storages;
    add_storages(value, storages);
    auto lock = engine_.lock();
    for (c10::StorageImpl* storage : storages) {
      if (Record* record = adapter.resolve(storage)) uses_.push_back({record, false});
    }
    const auto why = engine_.acquire(std::span<const Use>(uses_.data(), uses_.size()), adapter.stream(), lock);
    if (!why) return;
    lock.unlock();
    throw_out_of_memory(adapter, *why);
  }
  ~Stay() {
    const auto lock = engine_.lock();
    engine_.release(uses_);
  }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;

 private:
  Engine& engine_;
  Uses uses_;
};

Adapter* watching() {
  Adapter* found = adapter();
  return found != nullptr && found->managing.load(std::memory_order_relaxed) ? found : nullptr;
}

// This thread's ops are not ours: part of a unit, or not on.
bool out_of_sight() { return c10::impl::tls_is_dispatch_key_excluded(kKey) || !c10::impl::tls_is_dispatch_key_included(kKey); }

void handle(const OpTraits& traits, const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::DispatchKeySet below = keys & kBelowKey;
  Adapter* adapter = watching();
  if (adapter == nullptr) {
    op.redispatchBoxed(below, stack);
    return;
  }
  const auto once = [&](Stack& arguments) {
    run_op(*adapter, op, traits, below, arguments, [&] { op.redispatchBoxed(below, &arguments); });
  };
  try {
    if (traits.splits && run_in_pieces(*adapter, op, *stack, once)) return;
    once(*stack);
  } catch (const WorkspaceShortage& why) {
    throw_as_out_of_memory(why);
  }
}

}  // namespace

bool pass_view(const OpTraits& traits, const at::Tensor& base) {
  Adapter* adapter = watching();
  if (adapter == nullptr) return true;
  if (!base.defined() || !is_plain(base) || in_region() || adapter->sweep.load(std::memory_order_relaxed) != 0 || adapter->records_graph()) return false;
  Engine& engine = adapter->engine();
  if (!engine.follows_ops()) return true;
  auto lock = engine.lock();
  if (engine.wants_ops() || engine.next_wants_after()) return false;
  if (!engine.steers()) return true;
  c10::StorageImpl* storage = base.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  Record* record = storage != nullptr ? adapter->resolve(storage) : nullptr;
  const Use use{record, false};
  engine.steer_before(key_of(traits, {&use, record != nullptr ? 1U : 0U}), current_phase(), lock);
  return true;
}

void OpEntry::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) { handle(traits_, op, keys, stack); }

void UnitEntry::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  Adapter* adapter = watching();
  if (adapter == nullptr || out_of_sight()) {
    kernel_.callBoxed(op, keys, stack);
    return;
  }
  try {
    run_op(*adapter, op, traits_, keys, *stack, [&] { kernel_.callBoxed(op, keys, stack); });
  } catch (const WorkspaceShortage& why) {
    throw_as_out_of_memory(why);
  }
}

void PinEntry::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  Adapter* adapter = watching();
  if (adapter == nullptr || out_of_sight()) {
    kernel_.callBoxed(op, keys, stack);
    return;
  }
  const c10::IValue argument = (*stack)[stack->size() - from_top_];  // the kernel takes it off the stack
  const Stay stay(*adapter, argument);
  kernel_.callBoxed(op, keys, stack);
}

void handle_any(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (watching() == nullptr || !op.hasSchema()) {
    op.redispatchBoxed(keys & kBelowKey, stack);
    return;
  }
  OpTraits traits = traits_of(op);
  traits.replay = Replay::never;
  traits.why_not = "nothing is known of it";
  handle(traits, op, keys, stack);
}

}  // namespace spillway
