// Dropping and rebuilding: which records may be dropped, what they will be rebuilt from, when they must come back first.
#include <algorithm>
#include <array>
#include <exception>
#include <ranges>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/own.h"

namespace spillway {

namespace {

// A rebuild may run through this many records without bytes: beyond that a move is the better remedy, the recursion stays
// shallow and the survey short. What a plan drops was priced with all it takes.
constexpr std::size_t kMostAncestors = 24, kMostPlannedAncestors = 256;

// The record and, each once, the records without bytes its rebuild runs through: dead ones, which come back as
// temporaries, and dropped ones, which come back for good. One at a time: a record knows by a number that it was seen.
class Ancestry {
 public:
  Ancestry(const Record& record, std::uint64_t number, std::size_t most) : number_(number), most_(most) { (void)add(&record); }

  // False when there are too many.
  bool add(const Record* record) {
    if (record->surveyed == number_) return true;
    if (count_ == most_) return false;
    record->surveyed = number_;
    found_[count_++] = record;
    return true;
  }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] const Record& operator[](std::size_t i) const { return *found_[i]; }

 private:
  const std::uint64_t number_;
  const std::size_t most_;
  std::array<const Record*, kMostPlannedAncestors> found_;
  std::size_t count_ = 0;
};

bool has_bytes(const Record& record) { return record.residence != Residence::gone && record.residence != Residence::dropped; }

// Another thread may be rebuilding one that arrives, and wait for us.
bool is_there(const Record& side, std::uint32_t epoch) {
  return (side.residence == Residence::resident || side.residence == Residence::away) && side.epoch == epoch && !side.exposed();
}

}  // namespace

void Engine::set_recipe(Record* record, Recipe* recipe) {
  minutes_.note_recipe(CallKind::set_recipe, *record, *recipe);
  forget_recipes(record);
  add_recipe(record, recipe);
}

void Engine::append_recipe(Record* record, Recipe* recipe) {
  minutes_.note_recipe(CallKind::append_recipe, *record, *recipe);
  add_recipe(record, recipe);
}

void Engine::add_recipe(Record* record, Recipe* recipe) {
  if (recipe->refs++ == 0) {
    for (const Ingredient& ingredient : recipe->ingredients) ++ingredient.record->refs;
  }
  record->recipes.push_back(recipe);
}

void Engine::clear_recipes(Record* record) {
  if (!record->recipes.empty()) minutes_.note(CallKind::clear_recipes, record);
  forget_recipes(record);
}

void Engine::forget_recipes(Record* record) {
  SPILLWAY_ENSURE(record->residence != Residence::dropped, "a dropped storage lost its recipe");
  release_recipes(*record);
}

// Iterative: a chain of records may be as long as a step.
void Engine::release_recipes(Record& record) {
  std::vector<Recipe*>& work = unneeded_;
  const auto let_go = [&](Record& of) {
    for (Recipe* recipe : of.recipes) {
      std::ranges::replace(recipe->outputs, &of, nullptr);
      if (--recipe->refs == 0) work.push_back(recipe);
    }
    of.recipes.clear();
  };
  let_go(record);
  while (!work.empty()) {
    Recipe* recipe = work.back();
    work.pop_back();
    for (const Ingredient& ingredient : recipe->ingredients) {
      Record* source = ingredient.record;
      if (--source->refs > 0 || source->residence != Residence::gone || source->pins > 0) continue;
      let_go(*source);
      gone_.erase(source);
      shelf_.put(source);
    }
    recipe->ingredients.clear();
    dying_.push_back(recipe);
  }
}

void Engine::bury(Record* record) {
  record->residence = Residence::gone;
  record->orphan = false;
  // Still named by a recipe, or by the very op that freed it (one that resizes its output, say).
  if (record->refs > 0 || record->pins > 0) {
    gone_.insert(record);
    return;
  }
  release_recipes(*record);
  gone_.erase(record);
  shelf_.put(record);
}

void Engine::unref(Record* record) {
  if (--record->refs == 0 && record->residence == Residence::gone) bury(record);
}

// Dead records that a dropped one will be rebuilt through.
void Engine::collect_needed(const Record& record, std::unordered_set<const Record*>& needed) const {
  for (const Recipe* recipe : record.recipes) {
    for (const Ingredient& ingredient : recipe->ingredients) {
      const Record* source = ingredient.record;
      if (source->residence == Residence::gone && needed.insert(source).second) collect_needed(*source, needed);
    }
  }
}

// Recipes older than the last step would chain back to the first batch, and an in-place update from a value made of the
// old one (x += f(x)) is a ring that counting alone never frees.
void Engine::forget_old_recipes() {
  std::unordered_set<const Record*> needed;
  for (const Record* dropped : dropped_) collect_needed(*dropped, needed);
  std::vector<Record*> old;
  const auto look = [&](Record* record) {
    if (!record->recipes.empty() && record->recipes.front()->step + 1 < step_ && !needed.contains(record)) old.push_back(record);
  };
  table_.for_each(look);
  for (Record* record : away_) look(record);
  for (Record* record : gone_) look(record);
  for (Record* record : old) ++record->refs;
  for (Record* record : old) forget_recipes(record);
  for (Record* record : old) unref(record);
}

bool Engine::may_be_lean(const Recipe& recipe, const Record& wanted) const {
  return !recipe.sides.empty() && recipe.outputs.front() == &wanted && std::ranges::all_of(recipe.sides, [&](const Side& side) {
    const Record* record = recipe.outputs[side.output];
    return record != nullptr && is_there(*record, side.epoch);
  });
}

// The recipe whose ingredients the rebuild reads instead of its own first one.
const Recipe* Engine::straight_from(const Recipe& recipe) const {
  if (!recipe.straight) return nullptr;
  const auto& [record, epoch] = recipe.ingredients.front();
  const Record& source = *record;
  if (source.residence != Residence::gone || source.epoch != epoch || source.recipes.size() != 1) return nullptr;
  return may_be_lean(*source.recipes.front(), source) ? source.recipes.front() : nullptr;
}

std::vector<Record*> Engine::borrow_sides(const Recipe& recipe, const Record& wanted) {
  minutes_.note_sides(recipe, wanted);
  std::vector<Record*> sides;
  if (!may_be_lean(recipe, wanted)) return sides;
  for (const Side& side : recipe.sides) sides.push_back(recipe.outputs[side.output]);
  for (Record* side : sides) ++side->dependents;
  return sides;
}

void Engine::keep_temporary(Record* temporary) {
  minutes_.note(CallKind::keep_temporary, temporary);
  count(*temporary, -1);
  temporary->orphan = true;
  ++temporary->dependents;
  count(*temporary, +1);
}

void Engine::return_sides(std::span<Record* const> sides) {
  minutes_.note_records(CallKind::return_sides, sides);
  end_sides(sides);
}

void Engine::end_sides(std::span<Record* const> sides) {
  for (Record* side : sides) {
    --side->dependents;
    dispose_if_unneeded(side);
  }
  changed_.tell();
}

// Walks everything a rebuild would have to run.
Engine::Survey Engine::survey(const Record& record, bool planned) const {
  Survey survey;
  Ancestry all(record, ++surveys_, planned ? kMostPlannedAncestors : kMostAncestors);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].recipes.empty()) return survey;
    if (i == 0 || all[i].residence == Residence::gone) survey.bytes += all[i].size;
    for (const Recipe* recipe : all[i].recipes) {
      const Recipe* maker = straight_from(*recipe);
      survey.time += maker != nullptr || recipe->rides || may_be_lean(*recipe, all[i]) ? recipe->lean_time : recipe->time;
      const auto add = [&](const Ingredient& ingredient) {
        return ingredient.record->epoch == ingredient.epoch && (has_bytes(*ingredient.record) || all.add(ingredient.record));
      };
      if (maker != nullptr && !std::ranges::all_of(maker->ingredients, add)) return survey;
      if (!std::ranges::all_of(std::span(recipe->ingredients).subspan(maker != nullptr ? 1 : 0), add)) return survey;
    }
  }
  survey.legal = true;
  return survey;
}

bool Engine::may_drop(const Record& record, bool planned) const {
  const Survey found = survey(record, planned);
  // A rebuild runs beside the pinned arguments of the op that needs it: a quarter of the budget must do, where no plan has
  // found the room. (Not the arena's own limit: this runs under its lock.)
  return found.legal && (planned || found.bytes <= options_.budget.value_or(options_.address_space) / 4);
}

void Engine::collect_leaves(const Record& record, std::vector<Record*>& leaves) const {
  Ancestry dead(record, ++surveys_, kMostPlannedAncestors);
  for (std::size_t i = 0; i < dead.size(); ++i) {
    for (const Recipe* recipe : dead[i].recipes) {
      for (const Ingredient& ingredient : recipe->ingredients) {
        if (ingredient.record->residence == Residence::gone) {
          SPILLWAY_ENSURE(dead.add(ingredient.record), "a dropped storage has more ancestors than its survey found");
        } else {
          leaves.push_back(ingredient.record);
        }
      }
    }
  }
}

// A record died while others were to be rebuilt from it: they will be rebuilt from what it was made of.
void Engine::inherit_leaves(Record& dead) {
  for (Record* heir : std::views::reverse(dropped_)) {
    if (dead.dependents == 0) return;
    const auto times = std::erase(heir->leaves, &dead);
    dead.dependents -= static_cast<std::uint32_t>(times);
    for (std::size_t i = 0; i < times; ++i) {
      for (Record* leaf : dead.leaves) {
        ++leaf->dependents;
        heir->leaves.push_back(leaf);
      }
    }
  }
}

// Whether all that are to be rebuilt from it could as well be rebuilt from its own ingredients, it being a temporary then.
// Otherwise a chain of storages that were dropped one by one and died one by one comes back as temporaries all at once. Who is
// being rebuilt from it right now cannot do without. Heirs are mostly among the latest to be dropped, and those that are found need
// not be looked for: a step drops hundreds, and every death of an ingredient comes here.
bool Engine::heirs_do_without(Record& dead, bool planned) const {
  const Residence before = std::exchange(dead.residence, Residence::gone);
  std::int64_t heirs = 0;
  bool all = true;
  for (auto heir = dropped_.end(); all && heirs < dead.dependents && heir != dropped_.begin();) {
    const auto times = std::ranges::count((*--heir)->leaves, &dead);
    heirs += times;
    all = times == 0 || may_drop(**heir, planned);
  }
  dead.residence = before;
  return all && heirs == dead.dependents;
}

// A plan counts on a dead storage's memory: those it was an ingredient of are rebuilt from its own, unless one cannot be.
bool Engine::try_spare(Record& dead) {
  if (dead.exposed() || !survey(dead, /*planned=*/true).legal || !heirs_do_without(dead, /*planned=*/true)) return false;
  collect_leaves(dead, dead.leaves);
  for (Record* leaf : dead.leaves) ++leaf->dependents;
  inherit_leaves(dead);
  undrop(dead);
  return true;
}

void Engine::undrop(Record& record) {
  dropped_.erase(&record);
  for (Record* leaf : std::exchange(record.leaves, {})) {
    --leaf->dependents;
    dispose_if_unneeded(leaf);
  }
}

// Who comes home only for this leaves again: see take_in.
void Engine::rebuild(Record* record, Lock& lock) {
  if (own.guests != nullptr) return record->again ? take_in(record, lock) : rebuild_beside(record, lock);
  std::vector<Guest> guests;
  own.guests = &guests;
  std::exception_ptr failed;
  try {
    rebuild_beside(record, lock);
  } catch (...) {
    failed = std::current_exception();
  }
  own.guests = nullptr;
  for (const auto& [guest, leaves] : guests) {
    guest->again = may_leave(*guest) && evict(guest, Leave::replay, lock, guest->gap);
    end_sides(leaves);
    unref(guest);
  }
  if (failed) std::rethrow_exception(failed);
}

// For another's rebuild. Those whose bytes are kept for it alone are needed once more.
void Engine::take_in(Record* record, Lock& lock) {
  Guest guest{record, record->leaves};
  for (Record* leaf : guest.leaves) ++leaf->dependents;
  ++record->refs;
  own.guests->push_back(std::move(guest));
  rebuild_beside(record, lock);
}

void Engine::rebuild_beside(Record* record, Lock& lock) {
  record->residence = Residence::arriving;
  ++record->refs;
  ++rebuilding_;
  ++own.rebuilding;
  minutes_.note(CallKind::rebuild, record);
  lock.unlock();
  try {
    owner_.rebuild(*record);
  } catch (...) {
    lock.lock();
    minutes_.note(CallKind::rebuilt, false);
    --rebuilding_;
    --own.rebuilding;
    if (record->residence == Residence::arriving) record->residence = Residence::dropped;
    changed_.tell();
    unref(record);
    throw;
  }
  lock.lock();
  minutes_.note(CallKind::rebuilt, true);
  --rebuilding_;
  --own.rebuilding;
  changed_.tell();
  SPILLWAY_ENSURE(record->residence == Residence::resident, "a rebuild left its storage without bytes");
  unref(record);
}

void Engine::finish_rebuild(Record* record, Record* made, std::span<const ReplayNote> replays) {
  SPILLWAY_ENSURE(made->size == record->size, "a rebuilt storage has another size");
  minutes_.note_rebuild(*record, *made, replays);
  const Block block = made->block;
  const std::uint64_t streams = made->streams;
  give_back(*made);
  if (tape_.on()) {
    tape_.death(*made);
    for (const ReplayNote& replay : replays) tape_.recompute(*record, replay);
  }
  bury(made);
  record->streams = streams;
  undrop(*record);
  note_absent(*record, -1);
  settle(*record, block);
  record->last_use = clock_;
  if (!record->orphan) owner_.attach(*record);
}

// Rebuilds dropped arguments one by one, with nothing else pinned, and moves them away: from there they come home without
// needing room for anything but themselves. The last resort when a rebuild beside the other arguments does not fit. Heirs
// of what the op writes come first; they need no push: being of an older epoch they cannot be dropped again, only moved.
void Engine::turn_drops_into_moves(std::span<const Use> uses, Lock& lock) {
  for (const Use& use : uses) {
    if (use.write && use.record->dependents > 0) before_write(use.record, lock);
  }
  for (const Use& use : uses) turn_drop_into_move(use.record, lock);
}

// What it is rebuilt from first: temporaries of one rebuild must not wait for another's.
void Engine::turn_drop_into_move(Record* record, Lock& lock) {
  if (record->residence != Residence::dropped) return;
  ++record->pins;
  try {
    for (std::size_t at = 0; record->residence == Residence::dropped && at < record->leaves.size(); ++at) {
      turn_drop_into_move(record->leaves[at], lock);
    }
    if (record->residence == Residence::dropped) rebuild(record, lock);
  } catch (...) {
    drop_pin(record);
    throw;
  }
  drop_pin(record);
  if (may_leave(*record)) (void)evict(record, Leave::move, lock);
}

void Engine::note_replay(const Record* temporary, const ReplayNote& replay) {
  minutes_.note_replay(temporary, replay);
  if (temporary != nullptr) tape_.recompute(*temporary, replay);
  ++stats_.recomputed_ops;
  stats_.lean_rebuilds += replay.lean ? 1 : 0;
  stats_.recompute += replay.took;
}

// Whoever was dropped and needs the bytes as they are now comes back before they change.
void Engine::before_write(Record* record, Lock& lock) {
  while (record->dependents > 0) {
    Record* victim = nullptr;  // the oldest
    for (Record* dropped : dropped_) {
      const bool heir = dropped->residence == Residence::dropped && std::ranges::find(dropped->leaves, record) != dropped->leaves.end();
      if (heir && (victim == nullptr || dropped->id < victim->id)) victim = dropped;
    }
    if (victim == nullptr) {
      pause(lock);  // another thread is rebuilding it
      continue;
    }
    if (victim->orphan) {
      rebuild(victim, lock);
      continue;
    }
    ++victim->pins;
    ++victim->refs;
    void* weak = owner_.weak(*victim);
    lock.unlock();
    void* held = owner_.hold(weak);
    lock.lock();
    std::exception_ptr failed;
    try {
      if (held != nullptr && victim->residence == Residence::dropped) rebuild(victim, lock);
    } catch (...) {
      failed = std::current_exception();
    }
    --victim->pins;
    lock.unlock();
    if (held != nullptr) owner_.unhold(held);
    lock.lock();
    unref(victim);
    if (failed) std::rethrow_exception(failed);
  }
}

}  // namespace spillway
