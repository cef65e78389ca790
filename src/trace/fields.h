// Every event described once: its number in files, its word, and its fields in order.
//
// The binary encoder and decoder and both directions of JSON are visitors over these descriptions, so a field cannot be
// written in one place and forgotten in another. A visitor is called as v("field", value), as v.moment("at", value)
// for points in time, which files store as differences, and as v.since(version, "field", value) for what files of an
// earlier version have not: read from those, it is what an event has by itself. Numbers and the order of fields are the
// file format: a change here is a new kFormatVersion.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "trace/event.h"

namespace spillway {

inline constexpr std::uint16_t kFormatVersion = 5, kOldestVersion = 1;  // that is written; that is read

struct EventTag {
  std::uint8_t number;  // in files; never 0, so that a run of zeros is no event
  std::string_view word;
};

template <class E>
inline constexpr EventTag kTag{};
template <>
inline constexpr EventTag kTag<Fact>{1, "fact"};
template <>
inline constexpr EventTag kTag<Name>{2, "name"};
template <>
inline constexpr EventTag kTag<StepBegin>{3, "step_begin"};
template <>
inline constexpr EventTag kTag<StepEnd>{4, "step_end"};
template <>
inline constexpr EventTag kTag<StorageBirth>{5, "birth"};
template <>
inline constexpr EventTag kTag<StorageDeath>{6, "death"};
template <>
inline constexpr EventTag kTag<StorageRole>{7, "role"};
template <>
inline constexpr EventTag kTag<Op>{8, "op"};
template <>
inline constexpr EventTag kTag<OpView>{8, "op"};
template <>
inline constexpr EventTag kTag<Allocation>{9, "allocation"};
template <>
inline constexpr EventTag kTag<Release>{10, "release"};
template <>
inline constexpr EventTag kTag<Refusal>{11, "refusal"};
template <>
inline constexpr EventTag kTag<Reserved>{12, "reserved"};
template <>
inline constexpr EventTag kTag<Move>{13, "move"};
template <>
inline constexpr EventTag kTag<Recompute>{14, "recompute"};
template <>
inline constexpr EventTag kTag<Stall>{15, "stall"};
template <>
inline constexpr EventTag kTag<BudgetChange>{16, "budget"};
template <>
inline constexpr EventTag kTag<PlanMade>{17, "plan"};
template <>
inline constexpr EventTag kTag<Decision>{18, "decision"};
template <>
inline constexpr EventTag kTag<StepSummary>{19, "step_summary"};
template <>
inline constexpr EventTag kTag<Restart>{20, "restart"};
template <>
inline constexpr EventTag kTag<Call>{21, "call"};
template <>
inline constexpr EventTag kTag<CallView>{21, "call"};

// The words of an enumeration, by value.
template <class Enum>
inline constexpr std::array<std::string_view, 0> kWords{};
template <>
inline constexpr std::array<std::string_view, 4> kWords<Phase>{"unknown", "forward", "backward", "optimizer"};
template <>
inline constexpr std::array<std::string_view, 7> kWords<StorageKind>{
    "unknown", "parameter", "gradient", "activation", "optimizer_state", "input", "workspace"};
template <>
inline constexpr std::array<std::string_view, 4> kWords<TraceTier>{"device", "host", "file", "nowhere"};
template <>
inline constexpr std::array<std::string_view, kStallCauseCount> kWords<StallCause>{"fetch", "room", "host_room",
                                                                                   "file"};
template <>
inline constexpr std::array<std::string_view, 5> kWords<Action>{"keep", "move_out", "prefetch", "drop", "recompute"};
template <>
inline constexpr std::array<std::string_view, 54> kWords<CallKind>{
    "allocate", "free", "died", "acquire", "release", "pin", "unpin", "adopt", "set_apart", "hold_for_life", "lend", "end_loan",
    "outside_write", "begin_region", "keep", "end_region", "loosen", "set_recipe", "append_recipe", "clear_recipes",
    "finish_rebuild", "note_replay", "borrow_sides", "return_sides", "keep_temporary", "end_step", "set_budget", "try_set_budget",
    "set_policy", "trust_nothing", "trim", "evict_all", "try_drop", "empty_out", "bring_all_home", "rebuild", "rebuilt", "answer",
    "refused", "failed", "lost", "end", "before", "after", "lose_name", "reset_stats", "script", "follow", "join", "move_house", "lead", "reckon", "settle",
    "begin_step"};
static_assert(kWords<CallKind>.size() == static_cast<std::size_t>(CallKind::begin_step) + 1);

template <class Enum>
requires std::is_enum_v<Enum>
[[nodiscard]] constexpr std::string_view word(Enum value) { return kWords<Enum>[static_cast<std::size_t>(value)]; }

// E is T or const T: one description serves readers and writers.
template <class E, class T>
concept Like = std::same_as<std::remove_const_t<E>, T>;

template <class V, Like<Fact> E>
void each_field(V& v, E& e) {
  v("key", e.key);
  v("value", e.value);
}

template <class V, Like<Name> E>
void each_field(V& v, E& e) {
  v.announced("id", e.id);
  v("text", e.text);
}

template <class V, Like<StepBegin> E>
void each_field(V& v, E& e) {
  v("step", e.step);
  v("job", e.job);
  v.moment("at", e.at);
  v("signature", e.signature);
}

template <class V, Like<StepEnd> E>
void each_field(V& v, E& e) {
  v("step", e.step);
  v("job", e.job);
  v.moment("at", e.at);
}

template <class V, Like<StorageBirth> E>
void each_field(V& v, E& e) {
  v("storage", e.storage);
  v("size", e.size);
  v("kind", e.kind);
  v("job", e.job);
  v.moment("at", e.at);
  v("tier", e.tier);
}

template <class V, Like<StorageDeath> E>
void each_field(V& v, E& e) {
  v("storage", e.storage);
  v.moment("at", e.at);
}

template <class V, Like<StorageRole> E>
void each_field(V& v, E& e) {
  v("storage", e.storage);
  v("kind", e.kind);
}

template <class V, class E>
requires Like<E, Op> || Like<E, OpView>
void each_field(V& v, E& e) {
  v("index", e.index);
  v("name", e.name);
  v("phase", e.phase);
  v("job", e.job);
  v("step", e.step);
  v("stream", e.stream);
  v.moment("start", e.start);
  v("duration", e.duration);
  v("transient", e.transient);
  v("workspace", e.workspace);
  v("replayable", e.replayable);
  v("why_not", e.why_not);
  v("inputs", e.inputs);
  v("outputs", e.outputs);
  v("mutated", e.mutated);
  v("aliased", e.aliased);
  v.since(2, "lean", e.lean);
  v.since(5, "again", e.again);
}

template <class V, Like<Allocation> E>
void each_field(V& v, E& e) {
  v("storage", e.storage);
  v("op", e.op);
  v("begin", e.range.begin);
  v("end", e.range.end);
  v("stream", e.stream);
  v("granted", e.granted);
  v("waits", e.waits);
  v.moment("at", e.at);
}

template <class V, Like<Release> E>
void each_field(V& v, E& e) {
  v("begin", e.range.begin);
  v("end", e.range.end);
  v("stream", e.stream);
  v.moment("at", e.at);
}

template <class V, Like<Refusal> E>
void each_field(V& v, E& e) {
  v("size", e.size);
  v("op", e.op);
  v("stream", e.stream);
  v.moment("at", e.at);
}

template <class V, Like<Reserved> E>
void each_field(V& v, E& e) {
  v("tier", e.tier);
  v("total", e.total);
  v.moment("at", e.at);
}

template <class V, Like<Move> E>
void each_field(V& v, E& e) {
  v("storage", e.storage);
  v("from", e.from);
  v("to", e.to);
  v("size", e.size);
  v("trigger", e.trigger);
  v.moment("start", e.start);
  v("duration", e.duration);
  v("clean", e.clean);
}

template <class V, Like<Recompute> E>
void each_field(V& v, E& e) {
  v("storage", e.storage);
  v("replayed", e.replayed);
  v("needed_by", e.needed_by);
  v.moment("start", e.start);
  v("duration", e.duration);
}

template <class V, Like<Stall> E>
void each_field(V& v, E& e) {
  v("cause", e.cause);
  v("op", e.op);
  v("storage", e.storage);
  v("job", e.job);
  v.moment("start", e.start);
  v("duration", e.duration);
}

template <class V, Like<BudgetChange> E>
void each_field(V& v, E& e) {
  v("budget", e.budget);
  v("job", e.job);
  v.moment("at", e.at);
}

template <class V, Like<PlanMade> E>
void each_field(V& v, E& e) {
  v("policy", e.policy);
  v("job", e.job);
  v("step", e.step);
  v("budget", e.budget);
  v("predicted_peak", e.predicted_peak);
  v("shortfall", e.shortfall);
  v("predicted_time", e.predicted_time);
  v("took", e.took);
  v.moment("at", e.at);
}

template <class V, Like<Decision> E>
void each_field(V& v, E& e) {
  v("storage", e.storage);
  v("action", e.action);
  v("at", e.at);
  v("until", e.until);
  v("reason", e.reason);
  v("job", e.job);
  v("planned", e.planned);
}

template <class V, Like<StepSummary> E>
void each_field(V& v, E& e) {
  v("step", e.step);
  v("job", e.job);
  v("ops", e.ops);
  v("recomputed", e.recomputed);
  v("peak", e.peak);
  v("moved_out", e.moved_out);
  v("moved_in", e.moved_in);
  v.moment("at", e.at);
  v("duration", e.duration);
  v("recompute", e.recompute);
  v("stall", e.stall);
}

template <class V, Like<Restart> E>
void each_field(V& v, E& e) {
  v.moment("at", e.at);
}

template <class V, class E>
requires Like<E, Call> || Like<E, CallView>
void each_field(V& v, E& e) {
  v("kind", e.kind);
  v("words", e.words);
}

}  // namespace spillway
