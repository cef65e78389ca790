#include "sim/encore.h"

#include <bit>
#include <exception>
#include <utility>

#include "base/error.h"
#include "engine/script_words.h"
#include "plan/policies.h"
#include "trace/fields.h"

namespace spillway {

namespace {

constexpr const char* kSomeOp = "an op";  // only the floor hangs on which

}  // namespace

// Those of one call, one after the other. A trace is not to be trusted: what is missing is a call that does not fit.
class Encore::Words {
 public:
  explicit Words(const std::vector<std::uint64_t>& words) : words_(words) {}

  [[nodiscard]] bool empty() const { return at_ == words_.size(); }
  [[nodiscard]] std::uint64_t next() {
    if (empty()) throw Lost{};
    return words_[at_++];
  }
  [[nodiscard]] bool yes() { return next() != 0; }
  [[nodiscard]] Bytes bytes() { return {static_cast<std::int64_t>(next())}; }
  [[nodiscard]] Nanos nanos() { return {static_cast<std::int64_t>(next())}; }
  [[nodiscard]] std::uint32_t small() { return static_cast<std::uint32_t>(next()); }
  // Told with one added, so that zero is none.
  [[nodiscard]] OpIndex op() { return {small() - 1}; }
  [[nodiscard]] std::optional<Bytes> budget() {
    const Bytes told = bytes();
    return told > 0_B ? std::optional(told - 1_B) : std::nullopt;
  }

 private:
  const std::vector<std::uint64_t>& words_;
  std::size_t at_ = 0;
};

Encore::Encore(FakeDevice& device, EngineOptions options, const Trace& trace, std::size_t end)
    : device_(device), trace_(trace), caller_(device.open_stream()), engine_(device, *this, caller_, [&] {
        options.is_done = [this](Tick tick) { return answer(tick); };
        options.prompted = true;
        return options;
      }()) {
  for (std::size_t at = 0; at < end; ++at) {
    const Event& event = trace.events[at];
    if (std::holds_alternative<Call>(event) || std::holds_alternative<Op>(event)) score_.push_back(&event);
  }
}

// What the calling thread holds, it holds no longer.
Encore::~Encore() {
  const auto lock = engine_.lock();
  for (; !held_.empty(); held_.pop_back()) engine_.release(held_.back());
}

void Encore::play(std::unique_ptr<Sink> sink) {
  {
    const auto lock = engine_.lock();
    engine_.open_trace(std::make_unique<TraceWriter>(std::move(sink), WriterOptions::keep_all()));
  }
  try {
    while (!is_over()) play_next();
  } catch (const End&) {
    // No more is known of it.
  } catch (const Lost&) {
    if (problem_.empty()) problem_ = "a call of the run lacks some of its words";
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
  const auto lock = engine_.lock();
  engine_.tape().close();
}

void Encore::lose(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
  throw Lost{};
}

void Encore::play_next() {
  const Event& event = *score_[at_++];
  if (const Op* op = std::get_if<Op>(&event)) tell(*op);
  else play(std::get<Call>(event));
}

void Encore::play(const Call& call) {
  Words words(call.words);
  switch (call.kind) {
    case CallKind::allocate: case CallKind::free: case CallKind::died: return play_memory(call.kind, words);
    case CallKind::acquire: case CallKind::release: case CallKind::pin: case CallKind::unpin:
    case CallKind::begin_region: case CallKind::keep: case CallKind::end_region: return play_op(call.kind, words);
    case CallKind::adopt: case CallKind::set_apart: case CallKind::hold_for_life: case CallKind::lend: case CallKind::end_loan:
    case CallKind::outside_write: case CallKind::loosen: case CallKind::lose_name: case CallKind::try_drop: return play_storage(call.kind, words);
    case CallKind::set_recipe: case CallKind::append_recipe: case CallKind::clear_recipes: return play_recipe(call.kind, words);
    case CallKind::finish_rebuild: case CallKind::note_replay: case CallKind::borrow_sides: case CallKind::return_sides:
    case CallKind::keep_temporary: return play_rebuild(call.kind, words);
    case CallKind::end_step: case CallKind::set_budget: case CallKind::try_set_budget: case CallKind::set_policy:
    case CallKind::trust_nothing: case CallKind::trim: case CallKind::evict_all: case CallKind::empty_out:
    case CallKind::bring_all_home: case CallKind::reset_stats: return play_control(call.kind, words);
    case CallKind::before: case CallKind::after: case CallKind::script: case CallKind::follow: case CallKind::join:
    case CallKind::move_house: case CallKind::lead: case CallKind::reckon: case CallKind::settle: case CallKind::begin_step: return play_course(call.kind, words);
    case CallKind::rebuild: case CallKind::rebuilt: case CallKind::answer: case CallKind::refused: case CallKind::failed:
    case CallKind::lost: case CallKind::end:
      lose("the run met '" + std::string(word(call.kind)) + "' here, and the engine did not ask for it");
  }
}

// --- what the program did -------------------------------------------------------------------------------------------

void Encore::play_memory(CallKind kind, Words& words) {
  if (kind == CallKind::allocate) {
    const Bytes size = words.bytes();
    Record* record = engine_.try_allocate(size, StreamId{words.small()}, kSomeOp);
    if (record != nullptr) {
      records_.resize(record->id.index + 1, nullptr);
      records_.back() = record;
    }
    return expect_failure(record == nullptr);
  }
  Record* record = find(words.next());
  const bool here = record->residence == Residence::resident;
  if (here != (kind == CallKind::free)) lose("a storage died that was away in one of the two runs only");
  if (here) (void)engine_.free(record->data);
  else engine_.died(record);
}

void Encore::play_op(CallKind kind, Words& words) {
  if (kind == CallKind::acquire) return acquire(words);
  const auto lock = engine_.lock();
  if (kind == CallKind::release) {
    if (held_.empty() || held_.back().size() != words.next()) lose("an op ended that did not begin");
    engine_.release(held_.back());
    held_.pop_back();
    dispose_of_recipes();
  }
  if (kind == CallKind::pin) engine_.pin(find(words.next()));
  if (kind == CallKind::unpin) engine_.unpin(find(words.next()));
  if (kind == CallKind::begin_region) engine_.begin_region();
  if (kind == CallKind::keep) engine_.keep(find(words.next()));
  if (kind == CallKind::end_region) engine_.end_region(find_all(words));
}

void Encore::acquire(Words& words) {
  const StreamId on{words.small()};
  std::vector<Use> uses;
  while (!words.empty()) uses.push_back(read_use(words));
  bool failed = false;
  try {
    auto lock = engine_.lock();
    failed = engine_.acquire(uses, on, lock).has_value();
  } catch (const Failed&) {
    failed = true;
  }
  if (!failed) held_.push_back(std::move(uses));
  expect_failure(failed);
}

void Encore::expect_failure(bool failed) {
  if (is_over()) return;
  const bool recorded = peek(CallKind::failed) != nullptr;
  at_ += recorded ? 1 : 0;
  if (failed != recorded) lose(failed ? "there was memory in the run where there is none now" : "there is memory where there was none in the run");
}

void Encore::tell(const Op& op) {
  const auto lock = engine_.lock();
  engine_.note_step_op({.name = trace_.name(op.name), .phase = op.phase, .stream = op.stream, .start = device_.now(), .duration = op.duration,
                        .transient = op.transient, .lean = op.lean, .again = op.again, .replayable = op.replayable, .why_not = trace_.name(op.why_not),
                        .inputs = op.inputs, .outputs = op.outputs, .mutated = op.mutated, .aliased = op.aliased}, {});
  ++ops_;
}

void Encore::play_storage(CallKind kind, Words& words) {
  Record* record = find(words.next());
  if (kind == CallKind::try_drop) return (void)engine_.try_drop(record);
  auto lock = engine_.lock();
  if (kind == CallKind::adopt) engine_.adopt(record, words.yes() ? this : nullptr);
  if (kind == CallKind::set_apart) engine_.set_apart(record, lock);
  if (kind == CallKind::hold_for_life) engine_.hold_for_life(record);
  if (kind == CallKind::lend) engine_.lend(record, lock);
  if (kind == CallKind::end_loan) engine_.end_loan(record, lock);
  if (kind == CallKind::outside_write) engine_.note_outside_write(record, lock);
  if (kind == CallKind::loosen) engine_.loosen(record, words.yes());
  if (kind == CallKind::lose_name) engine_.lose_name(record);
}

// --- recipes --------------------------------------------------------------------------------------------------------

void Encore::play_recipe(CallKind kind, Words& words) {
  const auto lock = engine_.lock();
  Record* record = find(words.next());
  if (kind == CallKind::clear_recipes) return engine_.clear_recipes(record);
  if (!words.empty()) latest_ = read_recipe(words).release();
  if (latest_ == nullptr) lose("a recipe that was not told");
  if (kind == CallKind::set_recipe) engine_.set_recipe(record, latest_);
  else engine_.append_recipe(record, latest_);
}

std::unique_ptr<Recipe> Encore::read_recipe(Words& words) {
  auto recipe = std::make_unique<Recipe>();
  for (std::uint64_t left = words.next(); left > 0; --left) {
    Record* record = find(words.next());
    recipe->ingredients.push_back({record, words.small()});
  }
  for (std::uint64_t left = words.next(); left > 0; --left) {
    const std::uint64_t output = words.next();
    recipe->outputs.push_back(output == 0 ? nullptr : find(output - 1));
  }
  for (std::uint64_t left = words.next(); left > 0; --left) {
    const auto output = static_cast<std::uint16_t>(words.next());
    recipe->sides.push_back({output, words.small()});
  }
  recipe->time = words.nanos();
  recipe->lean_time = words.nanos();
  recipe->rides = words.yes();
  recipe->straight = words.yes();
  recipe->step = words.next();
  recipe->traced = words.op();
  return recipe;
}

ReplayNote Encore::read_replay(Words& words) {
  const OpIndex op = words.op();
  const Nanos start = words.nanos(), took = words.nanos();
  return {op, start, took, words.yes()};
}

void Encore::play_rebuild(CallKind kind, Words& words) {
  const auto lock = engine_.lock();
  if (kind == CallKind::return_sides) return engine_.return_sides(find_all(words));
  if (kind == CallKind::note_replay) {
    const std::uint64_t temporary = words.next();
    return engine_.note_replay(temporary == 0 ? nullptr : find(temporary - 1), read_replay(words));
  }
  Record* record = find(words.next());
  if (kind == CallKind::keep_temporary) return engine_.keep_temporary(record);
  if (kind == CallKind::borrow_sides) {
    const std::uint64_t which = words.next();
    if (which < record->recipes.size()) (void)engine_.borrow_sides(*record->recipes[which], *record);
    return;
  }
  Record* made = find(words.next());
  std::vector<ReplayNote> replays;
  while (!words.empty()) replays.push_back(read_replay(words));
  engine_.finish_rebuild(record, made, replays);
}

void Encore::dispose_of_recipes() {
  std::vector<Recipe*> dying;
  engine_.take_dying(dying);
  for (const Recipe* recipe : dying) {
    if (recipe == latest_) latest_ = nullptr;
    delete recipe;
  }
}

// --- what was set ---------------------------------------------------------------------------------------------------

void Encore::play_control(CallKind kind, Words& words) {
  if (kind == CallKind::end_step) engine_.end_step(), ++steps_;
  if (kind == CallKind::set_budget) engine_.set_budget(words.budget());
  if (kind == CallKind::try_set_budget) (void)engine_.try_set_budget(words.budget());
  if (kind == CallKind::trust_nothing) engine_.trust_nothing();
  if (kind == CallKind::trim) engine_.trim(words.yes());
  if (kind == CallKind::evict_all) engine_.evict_all(static_cast<Leave>(words.next()));
  if (kind == CallKind::empty_out) engine_.empty_out();
  if (kind == CallKind::set_policy) {
    const auto policy = static_cast<ReactivePolicy>(words.next());
    const auto leave = static_cast<Leave>(words.next());
    const std::uint64_t plans = words.empty() ? 0 : words.next();
    if (plans > plan_policies().size()) lose("a planner that is not known");
    engine_.set_policy(policy, leave, plans == 0 ? nullptr : &plan_policies()[plans - 1]);
  }
  if (kind == CallKind::reset_stats) engine_.reset_stats();
  if (kind != CallKind::bring_all_home) return;
  try {
    (void)engine_.bring_all_home();
  } catch (const Failed&) {
    return;  // a rebuild found no room, then as now
  }
}

// --- what it went by ------------------------------------------------------------------------------------------------

void Encore::play_course(CallKind kind, Words& words) {
  auto lock = engine_.lock();
  if (engine_.options().plans == nullptr) return;  // it goes without them this time
  if (kind == CallKind::before) {
    const std::uint64_t shape = words.next(), sized = words.next();
    engine_.steer_before({shape, sized}, static_cast<Phase>(words.next()), lock);
  }
  if (kind == CallKind::after) steer_after(lock, words);
  if (kind == CallKind::script) while (!words.empty()) lines_.push_back(words.next());
  if (kind == CallKind::follow) engine_.follow(find_script(words.next()), lock);
  if (kind == CallKind::join) join(words);
  if (kind == CallKind::move_house) engine_.move_house(lock);
  if (kind == CallKind::lead) take_over_leads(words);
  if (kind == CallKind::reckon) {
    const double out = std::bit_cast<double>(words.next());
    engine_.take_over_rates(out, std::bit_cast<double>(words.next()));
  }
  if (kind == CallKind::settle) engine_.settled_now(lock);
  if (kind == CallKind::begin_step) engine_.begin_step();
}

void Encore::steer_after(Engine::Lock& lock, Words& words) {
  const Bytes need = words.bytes();
  std::vector<Use> uses;
  for (std::uint64_t left = words.next(); left > 0; --left) uses.push_back(read_use(words));
  const std::vector<Record*> outputs = find_all(words);
  engine_.take_over_need(need);
  engine_.steer_after(uses, outputs, lock);
}

void Encore::join(Words& words) {
  const auto script = find_script(words.next());
  if (script == nullptr) lose("a step joined a script that was not told");
  Engine::Joining at{.script = script, .limit = words.bytes(), .next = words.next(), .spared = std::vector<bool>(script->gap_count())};
  if (at.next > script->op_count()) lose("a step joined a script behind its end");
  while (!words.empty()) {
    const std::uint64_t gap = words.next();
    if (gap >= script->gap_count()) lose("a step spared what its script does not have");
    at.spared[gap] = true;
  }
  engine_.join_course(std::move(at));
}

void Encore::take_over_leads(Words& words) {
  std::vector<Lead> leads;
  while (!words.empty()) {
    const OpPlace op = words.small();
    leads.push_back({op, words.small()});
    if (!engine_.has_gap(leads.back().gap)) lose("a way back begins earlier that the script does not have");
  }
  engine_.take_over_leads(std::move(leads));
}

std::shared_ptr<const Script> Encore::find_script(std::uint64_t number) {
  if (!lines_.empty()) scripts_.push_back(std::make_shared<const Script>(parse_lines(std::exchange(lines_, {}))));
  if (number > scripts_.size()) lose("a script that was not told");
  if (number == 0) return nullptr;
  const auto& script = scripts_[number - 1];
  if (script->places() && !script->places()->lie_in(engine_.placed())) lose("a script with places where there are none");
  return script;
}

Use Encore::read_use(Words& words) {
  const std::uint64_t use = words.next();
  return {find(use / 2), use % 2 == 1};
}

// --- what the engine asks -------------------------------------------------------------------------------------------

const Call* Encore::peek(CallKind kind) const {
  const Call* call = at_ < score_.size() ? std::get_if<Call>(score_[at_]) : nullptr;
  return call != nullptr && call->kind == kind ? call : nullptr;
}

const Call* Encore::peek_refusal(const Record& record) const {
  const Call* call = peek(CallKind::refused);
  return call != nullptr && call->words.size() == 4 && call->words[0] == record.id.index ? call : nullptr;
}

// Told done then, it is done now: nobody may decommit under a copy that goes on.
bool Encore::answer(Tick tick) {
  const Call* call = peek(CallKind::answer);
  if (call == nullptr || call->words.size() != 1) {
    if (!is_over() && problem_.empty()) problem_ = "the engine asked whether a copy was done where it did not in the run";
    at_ = score_.size();  // nothing more fits
    device_.synchronize(tick);
    return true;
  }
  ++at_;
  const bool done = call->words[0] != 0;
  if (done) device_.synchronize(tick);
  return done;
}

void* Encore::hold(void* weak) {
  const Call* refusal = peek_refusal(*static_cast<Record*>(weak));
  if (refusal == nullptr || refusal->words[1] != 0) return weak;
  ++at_;
  return nullptr;
}

bool Encore::is_named(void* held) {
  const Call* refusal = peek_refusal(*static_cast<Record*>(held));
  const bool named = refusal != nullptr && refusal->words[2] != 0;
  at_ += named ? 1 : 0;
  return named;
}

// The memory had moved to another storage: it lost its owner before it was told.
bool Encore::may_detach(Record& record) {
  const bool lost = peek(CallKind::adopt) != nullptr;
  at_ += lost ? 1 : 0;
  const bool refused = peek_refusal(record) != nullptr;
  if (!refused) at_ -= lost ? 1 : 0;
  if (refused && lost) engine_.adopt(&record, nullptr);
  at_ += refused ? 1 : 0;
  return !refused;
}

void Encore::rebuild(Record& record) {
  if (is_over()) throw End{};
  const Call* asked = peek(CallKind::rebuild);
  if (asked == nullptr || asked->words.size() != 1 || asked->words[0] != record.id.index) lose("the engine rebuilds a storage where it did not in the run");
  for (++at_; !is_over() && peek(CallKind::rebuilt) == nullptr;) play_next();
  if (is_over()) throw End{};
  const Call* done = peek(CallKind::rebuilt);
  if (done->words.size() != 1) throw Lost{};
  ++at_;
  if (done->words[0] == 0) throw Failed{};
}

// --- storages -------------------------------------------------------------------------------------------------------

Record* Encore::find(std::uint64_t storage) {
  Record* record = storage < records_.size() ? records_[storage] : nullptr;
  if (record == nullptr || record->id.index != storage) lose("storage " + std::to_string(storage) + " of the run is not there");
  return record;
}

std::vector<Record*> Encore::find_all(Words& words) {
  std::vector<Record*> all;
  while (!words.empty()) all.push_back(find(words.next()));
  return all;
}

}  // namespace spillway
