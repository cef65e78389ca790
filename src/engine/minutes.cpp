#include "engine/minutes.h"

#include <algorithm>
#include <array>
#include <bit>

#include "engine/script_words.h"

namespace spillway {

namespace {

constexpr std::size_t kMostWords = 4096;  // of a script in one call: an event is not to be larger than a block of the file

}  // namespace

void Minutes::begin() {
  on_ = true;
  scripts_.clear();
  leads_.clear();
  whose_ = std::this_thread::get_id();
}

void Minutes::end() {
  if (!on_) return;  // others may be asking
  note(CallKind::lost);
  on_ = false;
}

void Minutes::write(CallKind kind, std::span<const std::uint64_t> words) {
  if (std::this_thread::get_id() == (calls_ > 0 ? caller_ : whose_)) return tape_.call(kind, words);
  lose();
}

void Minutes::lose() {
  if (!on()) return;
  on_ = false;
  tape_.call(CallKind::lost, {});
}

void Minutes::note_uses(StreamId stream, std::span<const Use> uses) {
  if (!on()) return;
  words_.assign({word_of(stream)});
  add(uses);
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

void Minutes::add(std::span<const Use> uses) {
  for (const Use& use : uses) words_.push_back(2 * word_of(use.record) + (use.write ? 1 : 0));
}

// --- plans ----------------------------------------------------------------------------------------------------------

void Minutes::note_after(Bytes need, std::span<const Use> uses, std::span<Record* const> outputs) {
  if (!on()) return;
  words_.assign({word_of(need), uses.size()});
  add(uses);
  for (const Record* output : outputs) words_.push_back(word_of(output));
  write(CallKind::after, words_);
}

std::uint64_t Minutes::tell(const std::shared_ptr<const Script>& script) {
  const auto known = std::ranges::find(scripts_, script);
  const auto number = static_cast<std::uint64_t>(known - scripts_.begin()) + 1;
  if (known != scripts_.end()) return number;
  scripts_.push_back(script);
  const std::vector<std::uint64_t> words = to_words(script->lines());
  for (std::span<const std::uint64_t> rest = words; !rest.empty();) {
    const std::size_t count = std::min(rest.size(), kMostWords);
    write(CallKind::script, rest.first(count));
    rest = rest.subspan(count);
  }
  return number;
}

void Minutes::note_follow(const std::shared_ptr<const Script>& script) {
  if (!on()) return;
  leads_.clear();
  note(CallKind::follow, script ? tell(script) : 0);
}

void Minutes::note_join(const std::shared_ptr<const Script>& script, Bytes limit, std::size_t next, const std::vector<bool>& spared) {
  if (!on()) return;
  leads_.clear();
  const std::uint64_t number = tell(script);
  words_.assign({number, word_of(limit), next});
  for (std::size_t gap = 0; gap < spared.size(); ++gap) {
    if (spared[gap]) words_.push_back(gap);
  }
  write(CallKind::join, words_);
}

void Minutes::note_leads(const Leads& leads) {
  if (!on() || std::ranges::equal(leads.moved(), leads_)) return;
  leads_.assign(leads.moved().begin(), leads.moved().end());
  words_.clear();
  for (const Lead& lead : leads_) words_.insert(words_.end(), {lead.op, lead.gap});
  write(CallKind::lead, words_);
}

void Minutes::note_rates(const Costs& costs) {
  const auto bits = [](double number) { return std::bit_cast<std::uint64_t>(number); };
  note(CallKind::reckon, bits(costs.out_nanos_per_byte), bits(costs.in_nanos_per_byte));
}

}  // namespace spillway
