#include "sim/rebuild.h"

#include <algorithm>

#include "engine/sides.h"
#include "sim/player.h"

namespace spillway {

namespace {

std::vector<Use> uses_of(const Sides& sides) {
  std::vector<Use> uses;
  for (Record* record : sides.records()) uses.push_back({record, false});
  return uses;
}

}  // namespace

Rebuild::~Rebuild() {
  free_for_now();
  free_siblings();
  for (Record* record : partial_) free(record);
  const auto lock = player_.engine().lock();
  for (const auto& [gone, made] : temporaries_) player_.engine().return_sides({&made, 1});
}

void Rebuild::free(Record* record) {
  if (record != nullptr) (void)player_.engine().free(record->data);
}

void Rebuild::free_for_now() {
  for (const auto& [storage, record] : for_now_) free(record);
  for_now_.clear();
}

void Rebuild::free_siblings() {
  for (const auto& [position, record] : siblings_) free(record);
  siblings_.clear();
}

void Rebuild::run() {
  Record* made = make(target_);
  const auto lock = player_.engine().lock();
  hand_over(target_, made, replays_);
}

// What the op made beside: home if somebody has dropped it, or nobody's.
void Rebuild::settle_siblings(const Recipe& recipe) {
  Siblings homeless;
  {
    const auto lock = player_.engine().lock();
    const ReplayNote beside{latest_.op, latest_.start, 0_ns};
    for (const auto& [position, record] : siblings_) {
      Record* sibling = recipe.outputs[position];
      const bool dropped = sibling != nullptr && sibling->residence == Residence::dropped && sibling->recipes.size() == 1;
      if (dropped) hand_over(*sibling, record, {&beside, 1});
      else homeless.emplace_back(position, record);
    }
  }
  siblings_ = std::move(homeless);
  free_siblings();
}

void Rebuild::hand_over(Record& record, Record* made, std::span<const ReplayNote> replays) {
  player_.rebuilt_ += record.size;
  player_.engine().finish_rebuild(&record, made, replays);
}

// What is under way is freed with this, should an op find no room.
Record* Rebuild::make(const Record& record) {
  partial_.push_back(nullptr);
  const std::vector<Recipe*> recipes = record.recipes;
  if (const auto pass = find_pass(recipes, record)) partial_.back() = run_at_once(*pass, record);
  if (partial_.back() == nullptr) {
    for (Recipe* recipe : recipes) partial_.back() = run(static_cast<OpRecipe&>(*recipe), record, partial_.back());
  }
  Record* made = partial_.back();
  partial_.pop_back();
  return made;
}

// The op that made it and those that changed it after; or the one that made it and its dead source's maker.
std::optional<Rebuild::Pass> Rebuild::find_pass(std::span<Recipe* const> recipes, const Record& wanted) const {
  Pass pass{.readers = {}, .first = &wanted, .time = {}};
  const auto add = [&](Recipe* recipe) { pass.readers.push_back(static_cast<OpRecipe*>(recipe)); };
  if (recipes.size() == 1) {
    if (!recipes[0]->straight) return std::nullopt;
    const Record* source = pass.first = recipes[0]->ingredients.front().record;
    const bool again = std::ranges::any_of(temporaries_, [&](const auto& one) { return one.first == source; });
    if (source->residence != Residence::gone || source->recipes.size() != 1 || again) return std::nullopt;
    add(source->recipes[0]);
    add(recipes[0]);
    pass.time = recipes[0]->lean_time;
    return pass;
  }
  for (Recipe* recipe : recipes) {
    if (recipe != recipes[0] && !recipe->rides) return std::nullopt;
    add(recipe);
    pass.time += recipe->lean_time;
  }
  return pass;
}

void Rebuild::make_dead(const Recipe& recipe, const Record& wanted) {
  for (const Ingredient& ingredient : recipe.ingredients) {
    const Record* source = ingredient.record;
    const bool known = std::ranges::any_of(temporaries_, [&](const auto& one) { return one.first == source; });
    if (source == &wanted || source->residence != Residence::gone || known) continue;
    Record* made = make(*source);
    temporaries_.emplace_back(source, made);
    player_.rebuilt_ += made->size;
    const auto lock = player_.engine().lock();
    player_.engine().keep_temporary(made);
  }
}

// What it reads: those that live, and for the others their temporaries, which may have left meanwhile.
void Rebuild::add_sources(const Recipe& recipe, const Record& wanted, std::vector<Use>& uses) const {
  for (const Ingredient& ingredient : recipe.ingredients) {
    Record* source = ingredient.record;
    if (source == &wanted) continue;
    if (source->residence == Residence::gone) source = std::ranges::find(temporaries_, source, [](const auto& one) { return one.first; })->second;
    uses.push_back({source, false});
  }
}

template <class Execute>
void Rebuild::run_with(const std::vector<Use>& uses, const Record& wanted, Record*& so_far, Execute execute) {
  Engine& engine = player_.engine();
  auto lock = engine.lock();
  if (const auto why = engine.acquire(uses, player_.compute_, lock)) {
    player_.last_shortage_ = *why;
    throw Player::NoRoom{};
  }
  lock.unlock();
  player_.meter_.mark(Spent::fetch);
  try {
    Record* made = execute();
    if (made != nullptr) so_far = made;
  } catch (...) {
    lock.lock();
    engine.release(uses);
    throw;
  }
  lock.lock();
  engine.release(uses);
  const bool own = &wanted == &target_;
  if (own) replays_.push_back(latest_);
  engine.note_replay(own ? nullptr : so_far, latest_);
}

Record* Rebuild::run(OpRecipe& recipe, const Record& wanted, Record* so_far) {
  make_dead(recipe, wanted);
  const Sides sides(player_.engine(), recipe, wanted);
  std::vector<Use> uses = uses_of(sides);
  const bool lean = !uses.empty();
  add_sources(recipe, wanted, uses);
  run_with(uses, wanted, so_far, [&] { return lean ? execute_lean(recipe, wanted, recipe.lean_time) : execute(recipe, wanted); });
  settle_siblings(recipe);
  return so_far;
}

Record* Rebuild::run_at_once(const Pass& pass, const Record& wanted) {
  for (const OpRecipe* reader : pass.readers) make_dead(*reader, *pass.first);
  const Sides sides(player_.engine(), *pass.readers.front(), *pass.first);
  std::vector<Use> uses = uses_of(sides);
  if (uses.empty()) return nullptr;
  for (const OpRecipe* reader : pass.readers) add_sources(*reader, *pass.first, uses);
  Record* made = nullptr;
  run_with(uses, wanted, made, [&] { return execute_lean(*(pass.first == &wanted ? pass.readers.front() : pass.readers.back()), wanted, pass.time); });
  return made;
}

// Memory as the op took it the first time, in that order. The result that is wanted; null for an op that changes what is there
// already.
Record* Rebuild::take_memory(const OpRecipe& recipe, const Record& wanted) {
  const ScoreOp& op = recipe.op;
  Record* made = nullptr;
  const std::vector<Record*> outputs = recipe.outputs;
  for (const Cue& cue : op.inside) {
    if (!cue.birth) {
      const auto dead = std::ranges::find(for_now_, cue.storage, [](const auto& one) { return one.first; });
      if (dead == for_now_.end()) continue;
      free(dead->second);
      for_now_.erase(dead);
      continue;
    }
    if (player_.storage(cue.storage).size == 0_B) continue;
    const auto place = std::ranges::find(op.outputs, cue.storage);
    const auto at = static_cast<std::size_t>(place - op.outputs.begin());
    Record* record = player_.allocate(std::max(player_.storage(cue.storage).size, 1_B), op.name);
    if (at >= recipe.sizes.size() || recipe.sizes[at] == 0_B) for_now_.emplace_back(cue.storage, record);
    else if (outputs[at] == &wanted) partial_.back() = made = record;
    else siblings_.emplace_back(at, record);
  }
  return made;
}

Record* Rebuild::execute(OpRecipe& recipe, const Record& wanted) {
  const ScoreOp& op = recipe.op;
  Record* made = take_memory(recipe, wanted);
  Record* workspace = op.workspace > 0_B ? player_.allocate(op.workspace, op.name) : nullptr;
  player_.meter_.mark(Spent::room);
  const Nanos begin = player_.device_.now();
  player_.device_.compute(player_.compute_, op.time_again());
  player_.meter_.mark(Spent::rebuilds, op.time_again());
  free(workspace);
  free_for_now();
  latest_ = {recipe.traced, begin, op.time_again()};
  return made;
}

Record* Rebuild::execute_lean(const OpRecipe& shown, const Record& wanted, Nanos time) {
  Record* made = partial_.back() = player_.allocate(wanted.size, shown.op.name);
  player_.meter_.mark(Spent::room);
  const Nanos begin = player_.device_.now();
  player_.device_.compute(player_.compute_, time);
  player_.meter_.mark(Spent::rebuilds, time);
  latest_ = {shown.traced, begin, time, /*lean=*/true};
  return made;
}

}  // namespace spillway
