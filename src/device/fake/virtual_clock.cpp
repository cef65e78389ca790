#include "device/fake/virtual_clock.h"

#include <algorithm>

#include "base/error.h"

namespace spillway {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
constexpr std::int64_t kMillion = 1'000'000;

template <class Number>
Number divide_up(Number value, Number by) {
  return (value + by - 1) / by;
}

}  // namespace

// A slowdown s makes a nanosecond's worth of a kernel take 1 + s nanoseconds. With the three prices of the card as
// d1, d2, d3 millionths (d = 10^6 (1 + s)) a nanosecond of kernel is d1 d2 d3 units, and 10^6 d2 d3 of them pass per
// nanosecond beside copies out, and so on. With s <= 1 the longest duration there is still fits 127 bits.
VirtualClock::VirtualClock(const Card& card) : card_(card) {
  const std::array<Wide, 3> longer{kMillion + card.slower_beside_out.count, kMillion + card.slower_beside_in.count,
                                   kMillion + card.slower_beside_both.count};
  for (Wide each : longer) SPILLWAY_ENSURE(each >= kMillion && each <= 2 * kMillion, "a slowdown lies between 0 and 1");
  const Wide whole = longer[0] * longer[1] * longer[2];
  compute_speed_ = {whole, whole / longer[0] * kMillion, whole / longer[1] * kMillion, whole / longer[2] * kMillion};
}

StreamId VirtualClock::open_stream() {
  streams_.emplace_back();
  return {static_cast<std::uint32_t>(streams_.size() - 1)};
}

VirtualClock::Lane VirtualClock::lane_of(Tier to, Tier from) {
  if (to == Tier::file) return Lane::file_write;
  if (from == Tier::file) return Lane::file_read;
  if (to == from) return to == Tier::device ? Lane::device : Lane::host;
  return to == Tier::host ? Lane::out : Lane::in;
}

void VirtualClock::compute(StreamId on, Nanos duration) {
  enqueue(on, {.kind = Kind::compute, .left = duration.count * compute_speed_[0]});
}

void VirtualClock::copy(StreamId on, Place to, Place from, Bytes size) {
  enqueue(on, {.kind = Kind::copy,
               .lane = lane_of(to.tier, from.tier),
               .latency = card_.copy_latency,
               .left = static_cast<Wide>(size.count) * kNanosPerSecond,
               .to = to,
               .from = from,
               .size = size});
}

Tick VirtualClock::record(StreamId on) {
  const Tick tick{on, ++streams_[on.index].recorded};
  enqueue(on, {.kind = Kind::tick, .tick = tick});
  return tick;
}

void VirtualClock::wait(StreamId on, Tick tick) { enqueue(on, {.kind = Kind::wait, .tick = tick}); }

void VirtualClock::enqueue(StreamId on, Work work) {
  streams_[on.index].queue.push_back(work);
  settle();
}

Rate VirtualClock::copy_rate(const Work& work, Busy busy) const {
  switch (work.lane) {
    case Lane::out: return busy.in ? card_.out_both : card_.out;
    case Lane::in: return busy.out ? card_.in_both : card_.in;
    case Lane::device: return card_.hbm / 2;  // every byte is read and written
    case Lane::host: return card_.host_copy;
    case Lane::file_write:
      return work.from.tier == Tier::device ? std::min(card_.file_write, card_.out) : card_.file_write;
    case Lane::file_read:
      return work.to.tier == Tier::device ? std::min(card_.file_read, card_.in) : card_.file_read;
    case Lane::compute: break;
  }
  fail_invariant(__FILE__, __LINE__, "work.lane", "a copy is on a lane of copies");
}

// Units per nanosecond. A copy is counted in billionths of a byte, so that a rate in bytes per second is one.
VirtualClock::Wide VirtualClock::speed(const Work& work, Busy busy) const {
  if (work.kind == Kind::compute) return compute_speed_[(busy.out ? 1U : 0U) + (busy.in ? 2U : 0U)];
  return copy_rate(work, busy).count;
}

template <class Visit>
void VirtualClock::for_each_running(Visit visit) const {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const bool kernels = lane == static_cast<std::size_t>(Lane::compute);
    const std::size_t slots = kernels ? static_cast<std::size_t>(card_.compute_slots) : 1;
    for (std::size_t i = 0; i < std::min(slots, lanes_[lane].size()); ++i)
      visit(lanes_[lane][i], streams_[lanes_[lane][i]].queue.front());
  }
}

// The link carries bytes only after a copy's latency.
VirtualClock::Busy VirtualClock::busy_links() const {
  Busy busy;
  for_each_running([&](std::uint32_t, const Work& work) {
    if (work.kind != Kind::copy || work.latency > 0_ns) return;
    busy.out |= work.lane == Lane::out;
    busy.in |= work.lane == Lane::in;
  });
  return busy;
}

Nanos VirtualClock::until_next_event() const {
  const Busy busy = busy_links();
  Wide first = kNever.count;
  for_each_running([&](std::uint32_t, const Work& work) {
    first = std::min(first, work.latency > 0_ns ? work.latency.count : divide_up(work.left, speed(work, busy)));
  });
  return {static_cast<std::int64_t>(first)};
}

// `time` is at most until_next_event().
void VirtualClock::progress(Nanos time) {
  const Busy busy = busy_links();
  for_each_running([&](std::uint32_t stream, const Work&) {
    Work& work = streams_[stream].queue.front();
    if (work.latency > 0_ns) {
      work.latency -= time;
    } else {
      work.left -= speed(work, busy) * time.count;
    }
  });
  now_ += time;
}

void VirtualClock::retire() {
  std::vector<std::uint32_t> finished;
  for_each_running([&](std::uint32_t stream, const Work& work) {
    if (work.latency == 0_ns && work.left <= 0) finished.push_back(stream);
  });
  for (std::uint32_t stream : finished) {
    std::erase(lanes_[static_cast<std::size_t>(streams_[stream].queue.front().lane)], stream);
    streams_[stream].queue.pop_front();
    streams_[stream].started = false;
  }
}

// Ticks that are reached, waits that are over and kernels of no length take no time.
bool VirtualClock::pass_head(Stream& stream) {
  if (stream.queue.empty() || stream.started) return false;
  const Work& head = stream.queue.front();
  if (head.kind == Kind::copy || (head.kind == Kind::compute && head.left > 0)) return false;
  if (head.kind == Kind::wait && !is_done(head.tick)) return false;
  if (head.kind == Kind::tick) {
    stream.done = head.tick.value;
    stream.times.note(stream.done, now_);
  }
  stream.queue.pop_front();
  return true;
}

void VirtualClock::settle() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Stream& stream : streams_)
      while (pass_head(stream)) changed = true;
  }
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (stream.started || stream.queue.empty() || stream.queue.front().kind == Kind::wait) continue;
    lanes_[static_cast<std::size_t>(stream.queue.front().lane)].push_back(i);
    stream.started = true;
  }
}

void VirtualClock::advance_to(Nanos time) {
  while (true) {
    const Nanos next = until_next_event();
    if (next > time - now_) break;
    progress(next);
    retire();
    settle();
  }
  if (time > now_) progress(time - now_);
}

void VirtualClock::advance_until_done(Tick tick) {
  while (!is_done(tick)) {
    const Nanos next = until_next_event();
    SPILLWAY_ENSURE(next < kNever, "whatever was recorded is done some day");
    advance_to(now_ + next);
  }
}

Nanos VirtualClock::time_of(Tick tick) const {
  const Stream& stream = streams_[tick.stream.index];
  return stream.times.at(tick.value, stream.recorded, stream.done);
}

bool VirtualClock::is_touched(Tier tier, Range range) const {
  const auto touches = [&](const Work& work) {
    const auto at = [&](Place place) {
      return place.tier == tier && range.overlaps({place.offset, place.offset + work.size});
    };
    return work.kind == Kind::copy && (at(work.to) || at(work.from));
  };
  return std::ranges::any_of(streams_,
                             [&](const Stream& stream) { return std::ranges::any_of(stream.queue, touches); });
}

}  // namespace spillway
