#include "pool/stream_clocks.h"

#include "base/error.h"

namespace spillway {

namespace {
constexpr std::uint32_t kMostStreams = 1 << 16;  // stream numbers are dense; a larger one is a mistake
}

void StreamClocks::meet(StreamId stream) {
  SPILLWAY_ENSURE(stream.index < kMostStreams, "stream numbers are small and dense");
  if (stream.index >= streams_.size()) streams_.resize(stream.index + 1);
  streams_[stream.index].known = true;
  ++known_;
}

std::uint64_t StreamClocks::ordered_up_to(StreamId waiter, StreamId other) const {
  const auto& after = streams_[waiter.index].after;
  const std::uint64_t done = streams_[other.index].done;
  return other.index < after.size() ? std::max(after[other.index], done) : done;
}

void StreamClocks::note_done(Tick tick) {
  hear(tick);
  Stream& stream = streams_[tick.stream.index];
  if (tick.value <= stream.done) return;
  stream.done = tick.value;
  const auto implied =
      std::ranges::partition_point(stream.history, [&](const Wait& wait) { return wait.position < tick.value; });
  const std::vector<Wait> now_done(stream.history.begin(), implied);
  stream.history.erase(stream.history.begin(), implied);
  for (const Wait& wait : now_done) note_done(wait.tick);
}

void StreamClocks::note_wait(StreamId waiter, Tick tick, std::uint64_t position) {
  hear(waiter);
  hear(tick);
  if (ordered(waiter, tick)) return;
  // Every tick heard of so far was recorded before this wait: a smaller position can only be a mistake.
  Stream& stream = streams_[waiter.index];
  position = std::max(position, stream.heard);
  if (!stream.history.empty()) position = std::max(position, stream.history.back().position);

  for (const Wait& wait : streams_[tick.stream.index].history) {
    if (wait.position >= tick.value) break;
    order_after(waiter, wait.tick, position);
  }
  order_after(waiter, tick, position);
  if (stream.history.size() > std::max<std::size_t>(kLongestHistory, 4 * streams_.size())) fold(stream.history);
}

void StreamClocks::order_after(StreamId waiter, Tick tick, std::uint64_t position) {
  if (ordered(waiter, tick)) return;
  Stream& stream = streams_[waiter.index];
  if (tick.stream.index >= stream.after.size()) stream.after.resize(tick.stream.index + 1);
  stream.after[tick.stream.index] = tick.value;
  stream.history.push_back({position, tick});
}

void StreamClocks::fold(std::vector<Wait>& history) {
  const auto half = history.begin() + static_cast<std::ptrdiff_t>(history.size() / 2);
  const std::uint64_t position = std::prev(half)->position;
  std::vector<Wait> newest;  // of each stream, from the older half
  for (auto wait = std::make_reverse_iterator(half); wait != history.rend(); ++wait) {
    const auto same_stream = [&](const Wait& kept) { return kept.tick.stream == wait->tick.stream; };
    if (std::ranges::none_of(newest, same_stream)) newest.push_back({position, wait->tick});
  }
  history.erase(history.begin(), half);
  history.insert(history.begin(), newest.begin(), newest.end());
}

bool StreamClocks::implies(Tick later, Tick earlier) const {
  if (later.stream == earlier.stream) return earlier.value <= later.value;
  if (done(earlier)) return true;
  const auto& history = streams_[later.stream.index].history;
  return std::ranges::any_of(history, [&](const Wait& wait) {
    return wait.position < later.value && wait.tick.stream == earlier.stream && earlier.value <= wait.tick.value;
  });
}

// One by one, so that of two ticks said to imply each other (impossible, but a caller may say so) one stays.
void StreamClocks::drop_implied(std::vector<Tick>& ticks) const {
  for (std::size_t i = 0; ticks.size() > 1 && i < ticks.size();) {
    const Tick tick = ticks[i];
    const auto covers = [&](Tick other) { return other != tick && implies(other, tick); };
    if (std::ranges::any_of(ticks, covers)) {
      ticks.erase(ticks.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

std::optional<Tick> StreamClocks::pending(StreamId stream) const {
  if (stream.index >= streams_.size()) return std::nullopt;
  const Stream& known = streams_[stream.index];
  if (known.heard <= known.done) return std::nullopt;
  return Tick{stream, known.heard};
}

void StreamClocks::verify() const {
  SPILLWAY_ENSURE(std::ranges::count(streams_, true, &Stream::known) == known_, "streams heard of are counted");
  for (const Stream& stream : streams_) {
    SPILLWAY_ENSURE(stream.done <= stream.heard, "what is done was heard of");
    SPILLWAY_ENSURE(std::ranges::is_sorted(stream.history, {}, &Wait::position), "a history is in order");
    for (const Wait& wait : stream.history) {
      SPILLWAY_ENSURE(wait.position >= stream.done, "what a done tick implies has left the history");
      SPILLWAY_ENSURE(wait.tick.value <= stream.after[wait.tick.stream.index], "a stream is ordered after its waits");
    }
  }
}

}  // namespace spillway
