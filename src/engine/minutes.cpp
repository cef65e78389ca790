#include "engine/minutes.h"

#include <algorithm>

namespace spillway {

void Minutes::begin() {
  on_ = true;
  whose_ = std::this_thread::get_id();
}

void Minutes::end() {
  if (!on_) return;  // others may be asking
  note(CallKind::lost);
  on_ = false;
}

void Minutes::write(CallKind kind, std::span<const std::uint64_t> words) {
  if (std::this_thread::get_id() == whose_) return tape_.call(kind, words);
  on_ = false;
  tape_.call(CallKind::lost, {});
}

void Minutes::note_uses(StreamId stream, std::span<const Use> uses) {
  if (!on()) return;
  words_.assign({word_of(stream)});
  for (const Use& use : uses) words_.push_back(2 * word_of(use.record) + (use.write ? 1 : 0));
  write(CallKind::acquire, words_);
}

void Minutes::note_records(CallKind kind, std::span<Record* const> records) {
  if (!on()) return;
  words_.clear();
  for (const Record* record : records) words_.push_back(word_of(record));
  write(kind, words_);
}

// One that is somebody's already was told with the call before.
void Minutes::note_recipe(CallKind kind, const Record& record, const Recipe& recipe) {
  if (!on()) return;
  words_.assign({word_of(&record)});
  if (recipe.refs == 0) add(recipe);
  write(kind, words_);
}

void Minutes::add(const Recipe& recipe) {
  words_.push_back(recipe.ingredients.size());
  for (const Ingredient& ingredient : recipe.ingredients) words_.insert(words_.end(), {word_of(ingredient.record), ingredient.epoch});
  words_.push_back(recipe.outputs.size());
  for (const Record* output : recipe.outputs) words_.push_back(output == nullptr ? 0 : word_of(output) + 1);
  words_.push_back(recipe.sides.size());
  for (const Side& side : recipe.sides) words_.insert(words_.end(), {side.output, side.epoch});
  words_.insert(words_.end(), {word_of(recipe.time), word_of(recipe.lean_time), word_of(recipe.rides), word_of(recipe.straight), recipe.step,
                               recipe.traced.valid() ? std::uint64_t{recipe.traced.index} + 1 : 0});
}

void Minutes::note_sides(const Recipe& recipe, const Record& wanted) {
  if (!on()) return;
  const auto at = std::ranges::find(wanted.recipes, &recipe) - wanted.recipes.begin();
  note(CallKind::borrow_sides, &wanted, at);
}

void Minutes::note_rebuild(const Record& record, const Record& made, std::span<const ReplayNote> replays) {
  if (!on()) return;
  words_.assign({word_of(&record), word_of(&made)});
  for (const ReplayNote& replay : replays) add(replay);
  write(CallKind::finish_rebuild, words_);
}

void Minutes::note_replay(const Record* temporary, const ReplayNote& replay) {
  if (!on()) return;
  words_.assign({temporary == nullptr ? 0 : word_of(temporary) + 1});
  add(replay);
  write(CallKind::note_replay, words_);
}

void Minutes::add(const ReplayNote& replay) {
  words_.insert(words_.end(), {replay.op.valid() ? std::uint64_t{replay.op.index} + 1 : 0, word_of(replay.start), word_of(replay.took), word_of(replay.lean)});
}

}  // namespace spillway
