#include "sim/player.h"

#include <algorithm>
#include <utility>

#include "sim/op_recipe.h"
#include "sim/rebuild.h"

namespace spillway {

namespace {

// The driver's launch queue takes about a thousand; few enough that every mark of the meter is read in time.
constexpr std::size_t kMostLaunched = 256;

}  // namespace

Player::Player(FakeDevice& device, const EngineOptions& options, const Score& score, const Liveness& step)
    : device_(device), score_(score), step_(step), compute_(device.open_stream()), meter_(device, compute_),
      engine_(device, *this, compute_, options), records_(step.storage_count(), nullptr) {}

Player::~Player() { dispose_of_recipes(); }

// --- steps ----------------------------------------------------------------------------------------------------------

void Player::play_step() {
  try {
    begin_step();
    for (const ScoreOp& op : score_.ops) play(op);
    for (const Cue& cue : score_.tail) follow(cue, nullptr);
    end_step();
  } catch (const NoRoom&) {
    if (!unfit_) refuse("outside any op", last_shortage_);
  }
}

void Player::open_trace(const std::string& path, const WriterOptions& kept) {
  const auto lock = engine_.lock();
  engine_.open_trace(path, kept);
  engine_.tape().fact("device", device_.facts().name);
  const EngineOptions& options = engine_.options();
  engine_.tape().fact("policy", std::string(engine_.policy_name()));
  if (options.budget) engine_.tape().budget(*options.budget);
}

void Player::close_trace() {
  const auto lock = engine_.lock();
  engine_.tape().close();
}

// What the step finds there and the one before did not leave: parameters at first, a new batch each time.
void Player::begin_step() {
  for (StoragePlace place = 0; place < step_.storage_count(); ++place) {
    if (!storage(place).before || records_[place] != nullptr) continue;
    give_birth(place, nullptr);
    if (storage(place).kind == StorageKind::workspace) continue;
    const auto lock = engine_.lock();
    engine_.adopt(records_[place], this);
  }
}

// What goes on under another name is that from now on; what goes on as nobody known is gone.
void Player::end_step() {
  std::vector<Record*> next(records_.size(), nullptr);
  for (StoragePlace place = 0; place < step_.storage_count(); ++place) {
    if (records_[place] == nullptr) continue;
    if (const StoragePlace to = storage(place).next; storage(place).after && to != kNoPlace) next[to] = records_[place];
    else bury(place);
  }
  records_ = std::move(next);
  engine_.end_step({.now = std::exchange(measured_, {})});
  meter_.mark(Spent::host);
  meter_.read(/*all=*/true);
}

// --- storages -------------------------------------------------------------------------------------------------------

Record* Player::allocate(Bytes size, std::string_view maker) {
  Record* record = engine_.try_allocate(size, compute_, maker.empty() ? nullptr : maker.data());
  if (record != nullptr) return record;
  const auto lock = engine_.lock();
  last_shortage_ = engine_.shortage(size);
  throw NoRoom{};
}

void Player::give_birth(StoragePlace place, const char* maker) {
  records_[place] = allocate(std::max(storage(place).size, 1_B), maker == nullptr ? std::string_view() : maker);
}

void Player::bury(StoragePlace place) {
  Record* record = std::exchange(records_[place], nullptr);
  if (record == nullptr) return;
  if (record->residence == Residence::resident) (void)engine_.free(record->data);
  else engine_.died(record);
}

void Player::follow(const Cue& cue, const char* maker) {
  if (cue.birth) give_birth(cue.storage, maker);
  else bury(cue.storage);
}

// --- ops ------------------------------------------------------------------------------------------------------------

// Note [An empty house] of the torch adapter: near the floor memory may be there in pieces only.
void Player::play(const ScoreOp& op) {
  for (const Cue& cue : op.before) follow(cue, nullptr);
  for (bool again = false;; again = true) {
    const Tried tried = try_play(op, again);
    if (tried == Tried::done) break;
    const bool in_pieces = last_shortage_.asked <= last_shortage_.free;
    if (again || !in_pieces || (tried == Tried::failed_inside && !op.mutated.empty())) {
      refuse(std::string(op.name), last_shortage_);
      throw NoRoom{};
    }
    engine_.empty_out();
  }
  launched_.push_back(device_.record(compute_));
  if (launched_.size() > kMostLaunched) {
    device_.synchronize(launched_.front());
    launched_.pop_front();
  }
  meter_.read();
}

Player::Tried Player::try_play(const ScoreOp& op, bool again) {
  const std::vector<Use> uses = uses_of(op);
  meter_.mark(Spent::host);
  if (op.view) return look(op, uses);
  auto lock = engine_.lock();
  if (!again && (engine_.steers() || engine_.wants_ops())) engine_.steer_before({.shape = op.shape, .sized = op.key}, op.phase, lock);
  try {
    if (const auto why = engine_.acquire(uses, compute_, lock)) {
      last_shortage_ = *why;
      return Tried::failed_before;
    }
  } catch (const NoRoom&) {
    return Tried::failed_before;
  }
  op_clock_ = engine_.begin_op();
  lock.unlock();
  meter_.mark(Spent::fetch);
  const Nanos begin = device_.now();
  try {
    run_kernel(op);
  } catch (const NoRoom&) {
    take_back(op);
    lock.lock();
    engine_.end_op();
    engine_.release(uses);
    return Tried::failed_inside;
  }
  leave(op, uses, begin);
  return Tried::done;
}

Player::Tried Player::look(const ScoreOp& op, std::span<const Use> uses) {
  auto lock = engine_.lock();
  if (engine_.steers() || engine_.wants_ops()) engine_.steer_before({.shape = op.shape, .sized = op.key}, op.phase, lock);
  op_clock_ = engine_.begin_op();
  device_.compute(compute_, op.duration);
  meter_.mark(Spent::kernels, op.duration);
  const std::vector<Record*> outputs = outputs_of(op);
  measure(op);
  if (engine_.wants_ops()) tell(op, uses, outputs, device_.now());
  engine_.end_op();
  if (engine_.steers()) engine_.steer_after(uses, outputs, lock);
  return Tried::done;
}

void Player::run_kernel(const ScoreOp& op) {
  for (const Cue& cue : op.inside) follow(cue, op.name.data());
  Record* workspace = op.workspace > 0_B ? allocate(op.workspace, op.name) : nullptr;
  meter_.mark(Spent::room);
  device_.compute(compute_, op.duration);
  meter_.mark(Spent::kernels, op.duration);
  if (workspace != nullptr) (void)engine_.free(workspace->data);
}

void Player::take_back(const ScoreOp& op) {
  for (const Cue& cue : op.inside) {
    if (cue.birth) bury(cue.storage);
  }
}

void Player::leave(const ScoreOp& op, std::span<const Use> uses, Nanos begin) {
  {
    auto lock = engine_.lock();
    note_floor(op, uses, lock);
    const std::vector<Record*> outputs = outputs_of(op);
    measure(op);
    if (engine_.wants_ops()) tell(op, uses, outputs, begin);
    keep_recipe(op, uses);
    engine_.end_op();
    engine_.release(uses);
    if (engine_.steers()) engine_.steer_after(uses, outputs, lock);
  }
  dispose_of_recipes();
}

std::vector<Use> Player::uses_of(const ScoreOp& op) {
  std::vector<Use> uses;
  const auto lock = engine_.lock();
  const auto add = [&](const std::vector<StoragePlace>& places, bool write) {
    for (const StoragePlace place : places) {
      Record* record = records_[place];
      if (record == nullptr) continue;
      if (record->owner == nullptr && storage(place).kind != StorageKind::workspace) engine_.adopt(record, this);
      uses.push_back({record, write});
    }
  };
  add(op.inputs, false);
  add(op.mutated, true);
  return uses;
}

// With the lock.
std::vector<Record*> Player::outputs_of(const ScoreOp& op) {
  std::vector<Record*> outputs;
  for (const StoragePlace place : op.outputs) {
    Record* record = records_[place];
    if (record == nullptr) continue;
    if (record->owner == nullptr) engine_.adopt(record, this);
    outputs.push_back(record);
  }
  return outputs;
}

void Player::note_floor(const ScoreOp& op, std::span<const Use> uses, Engine::Lock& lock) {
  Bytes inputs;
  for (const Use& use : uses) {
    if (use.record->size >= engine_.options().smallest) inputs += use.record->block.range.length();
  }
  engine_.note_op({.inputs = inputs, .outputs = engine_.made_in_op(), .transient = engine_.peak_in_op()},
                  std::string(op.name), lock);
}

void Player::measure(const ScoreOp& op) {
  if (slow_clock_ == 0 || !engine_.wants_times()) return;
  ++timed_ops_;
  measured_.emplace_back(static_cast<std::int64_t>(static_cast<double>(device_.at_pace(op.duration).count) * (engine_.is_on_course() ? 1 : slow_clock_)));
}

// As long as the card takes for it; the host's own time is of no use to anybody.
void Player::tell(const ScoreOp& op, std::span<const Use> uses, std::span<Record* const> outputs, Nanos begin) {
  std::vector<StorageId> in, mutated, out, aliased;
  for (const Record* record : outputs) out.push_back(record->id);
  for (const Use& use : uses) {
    (use.write ? mutated : in).push_back(use.record->id);
    if (std::ranges::find(outputs, use.record) != outputs.end()) aliased.push_back(use.record->id);
  }
  engine_.note_step_op({.name = op.name, .phase = op.phase, .stream = compute_, .start = begin, .duration = op.duration,
                        .transient = engine_.peak_in_op(), .timed = slow_clock_ > 0 && engine_.wants_times(), .lean = op.lean, .again = op.again, .replayable = op.replayable, .why_not = op.why_not,
                        .inputs = in, .outputs = out, .mutated = mutated, .aliased = aliased}, {.shape = op.shape, .sized = op.key});
}

// --- recipes --------------------------------------------------------------------------------------------------------

bool Player::wants_recipe(const ScoreOp& op, std::span<const Use> uses) const {
  if (!op.replayable || !engine_.wants_recipes()) return false;
  return !op.in_place || (!uses.empty() && uses.back().write && !uses.back().record->recipes.empty());
}

void Player::keep_recipe(const ScoreOp& op, std::span<const Use> uses) {
  const bool wanted = wants_recipe(op, uses);
  Record* self = wanted && op.in_place ? uses.back().record : nullptr;
  for (const Use& use : uses) {
    if (use.write && use.record != self) engine_.clear_recipes(use.record);
  }
  if (!wanted) return;
  auto recipe = std::make_unique<OpRecipe>(op);
  for (const Use& use : uses) {
    if (!use.write) recipe->ingredients.push_back({use.record, use.record->epoch});
  }
  recipe->time = op.time_again();
  recipe->lean_time = std::min(op.lean, recipe->time);
  recipe->step = engine_.step();
  recipe->traced = engine_.tape().latest_op();
  if (self != nullptr) {
    recipe->rides = op.lean > 0_ns;
    recipe->outputs = {self};
    engine_.append_recipe(self, recipe.release());
    return;
  }
  for (const StoragePlace place : op.outputs) {
    Record* record = records_[place];
    const bool large = record != nullptr && (record->size >= engine_.options().smallest || op.lean > 0_ns);
    const bool fresh = large && record->born >= op_clock_;
    recipe->outputs.push_back(fresh ? record : nullptr);
    recipe->sizes.push_back(fresh ? record->size : 0_B);
  }
  const std::vector<Record*> outputs = recipe->outputs;
  if (std::ranges::none_of(outputs, [](const Record* record) { return record != nullptr; })) return;
  if (op.lean > 0_ns) find_lean(*recipe);
  OpRecipe* kept = recipe.release();
  for (Record* record : outputs) {
    if (record != nullptr) engine_.set_recipe(record, kept);
  }
}

// With other results beside the first, by these; with none, straight from what the maker of an argument read.
void Player::find_lean(OpRecipe& recipe) {
  const auto made = [](const Record* record) { return record != nullptr; };
  if (!made(recipe.outputs.front())) return;
  if (std::ranges::count_if(recipe.outputs, made) == 1) return find_straight(recipe);
  for (std::uint16_t at = 1; at < recipe.outputs.size(); ++at) {
    if (made(recipe.outputs[at])) recipe.sides.push_back({at, recipe.outputs[at]->epoch});
  }
}

// A cast of what a norm made, or a sum with what a dropout did: the latter has its mask and nothing else beside.
void Player::find_straight(OpRecipe& recipe) {
  const bool sum = recipe.ingredients.size() > 1;
  const auto source = std::ranges::find_if(recipe.ingredients, [&](const Ingredient& ingredient) {
    const auto& recipes = ingredient.record->recipes;
    if (recipes.size() != 1 || recipes[0]->sides.empty() || recipes[0]->outputs.front() != ingredient.record) return false;
    return !sum || recipes[0]->sides.size() == 1;
  });
  if (source == recipe.ingredients.end()) return;
  recipe.straight = true;
  std::swap(recipe.ingredients.front(), *source);
}

void Player::dispose_of_recipes() {
  std::vector<Recipe*> dying;
  {
    const auto lock = engine_.lock();
    engine_.take_dying(dying);
  }
  for (const Recipe* recipe : dying) delete recipe;
}

void Player::rebuild(Record& record) {
  Rebuild rebuild(*this, record);
  rebuild.run();
}

void Player::refuse(std::string op, const Shortage& why) {
  const Bytes needed = std::max(why.stay() + std::max(why.coming, why.asked), why.budget + why.asked - why.longest_free);
  unfit_ = Unfit{.op = std::move(op), .lacks = std::max(needed - why.budget, engine_.stats().floor - why.budget)};
}

}  // namespace spillway
