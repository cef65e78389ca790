#include "sim/again.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "engine/options.h"
#include "sim/encore.h"
#include "trace/reader.h"

namespace spillway {

namespace {

constexpr Bytes kRoom = Bytes{1} * (std::int64_t{1} << 56);  // of each tier: what a run had, it gets again

// Any will do: how long a copy takes decides nothing here.
Card any_card(const EngineOptions& options) {
  Card card = find_card("h200");
  card.name = "a run played again";
  card.memory = card.host_memory = card.file_room = kRoom;
  card.granule = options.granule;
  return card;
}

bool is_call(const Event& event, CallKind kind) {
  const Call* call = std::get_if<Call>(&event);
  return call != nullptr && call->kind == kind;
}

// Up to `at` the trace tells everything. `clean`: no call is under way there, whose acts might be missing.
struct Head {
  std::size_t at = 0;
  bool clean = false, whole = false;
};

Head head_of(const Trace& trace) {
  for (std::size_t at = 0; at < trace.events.size(); ++at) {
    const Event& event = trace.events[at];
    if (is_call(event, CallKind::end)) return {.at = at, .clean = true, .whole = true};
    if (is_call(event, CallKind::lost)) return {.at = at};
    if (std::holds_alternative<StepSummary>(event) || std::holds_alternative<Restart>(event)) return {.at = at, .clean = true};
  }
  return {.at = trace.events.size()};
}

// Empty: there is none.
std::string_view fact_of(const Trace& trace, std::string_view key) {
  for (const Event& event : trace.events) {
    if (const Fact* fact = std::get_if<Fact>(&event); fact != nullptr && fact->key == key) return fact->value;
  }
  return {};
}

EngineOptions recorded_options(const Trace& trace) {
  const std::string_view told = fact_of(trace, "again");
  if (told.starts_with("no: ")) throw InputError("this run cannot be played again: " + std::string(told.substr(4)));
  if (!told.empty()) return parse_options(told);
  throw InputError("this run cannot be played again: only runs inside a budget on the CPU are recorded so that they can");
}

EngineOptions options_for(const Trace& trace, const AgainOptions& wanted) {
  EngineOptions options = recorded_options(trace);
  if (wanted.budget) options.budget = wanted.budget;
  if (!wanted.policy) return options;
  const auto policy = find_policy(*wanted.policy);
  if (!policy) throw InputError("a run is played again as it was, or by lru or dtr, not by '" + *wanted.policy + "'");
  options.plans = nullptr;
  options.policy = *policy;
  options.leave = leave_of(*policy);
  return options;
}

std::optional<Act> act_of(const Event& event) {
  if (const Recompute* again = std::get_if<Recompute>(&event))
    return Act{.op = again->needed_by, .deed = Deed::recompute, .tier = TraceTier::nowhere, .storage = again->storage};
  const Move* move = std::get_if<Move>(&event);
  if (move == nullptr) return std::nullopt;
  if (move->to == TraceTier::device) return Act{.op = move->trigger, .deed = Deed::move_in, .tier = move->from, .storage = move->storage};
  const Deed deed = move->to == TraceTier::nowhere ? Deed::drop : move->clean ? Deed::leave_clean : Deed::move_out;
  return Act{.op = move->trigger, .deed = deed, .tier = move->to, .storage = move->storage};
}

std::vector<Act> acts_before(const Trace& trace, std::size_t end) {
  std::vector<Act> acts;
  for (std::size_t at = 0; at < end; ++at) {
    if (const auto act = act_of(trace.events[at])) acts.push_back(*act);
  }
  return acts;
}

void compare(const std::vector<Act>& recorded, const std::vector<Act>& played, AgainResult& result) {
  const auto [then, now] = std::ranges::mismatch(recorded, played);
  result.recorded = recorded.size();
  result.played = played.size();
  result.same = static_cast<std::size_t>(then - recorded.begin());
  if (then == recorded.end() && now == played.end()) return;
  result.difference.emplace();
  if (then != recorded.end()) result.difference->recorded = *then;
  if (now != played.end()) result.difference->played = *now;
}

}  // namespace

std::string_view word_of(Deed deed) {
  constexpr std::array<std::string_view, 5> kDeeds{"move_out", "leave_clean", "drop", "move_in", "recompute"};
  return kDeeds[static_cast<std::size_t>(deed)];
}

std::vector<Act> acts_of(const Trace& trace) { return acts_before(trace, head_of(trace).at); }

AgainResult play_again(const Trace& trace, const AgainOptions& wanted) {
  const EngineOptions options = options_for(trace, wanted);
  const Head head = head_of(trace);
  FakeDevice device(any_card(options), {.caller_computes = fact_of(trace, "device") == "host"});
  std::vector<std::uint8_t> bytes;
  Encore encore(device, options, trace, head.at);
  encore.play(std::make_unique<MemorySink>(bytes));
  AgainResult result{.ops = encore.ops(), .steps = encore.steps(), .whole = head.whole, .difference = {}, .problem = encore.problem()};
  const Trace played = read_trace(bytes, "the run played again");
  const std::vector<Act> recorded = acts_of(trace);
  std::vector<Act> acts = acts_of(played);
  if (!head.clean && acts.size() > recorded.size()) acts.resize(recorded.size());
  compare(recorded, acts, result);
  return result;
}

}  // namespace spillway
