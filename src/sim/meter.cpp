#include "sim/meter.h"

#include <algorithm>

namespace spillway {

namespace {

constexpr std::size_t kMostAhead = kTickWindow / 8;
constexpr std::uint64_t kMostTicks = kTickWindow / 2;  // of anybody: who leaves between two marks has one, too

}  // namespace

Meter::Meter(Device& device, StreamId stream) : device_(device), stream_(stream), last_(device.record(stream)) {
  device_.synchronize(last_);
  begin_ = at_ = device_.now();
}

// As a card's queue of launches does, so many marks ahead the host waits: the device forgets times.
void Meter::mark(Spent kind, Nanos nominal) {
  const auto far_ahead = [&] { return waiting_.size() >= kMostAhead || (!waiting_.empty() && waiting_.back().tick.value - last_.value >= kMostTicks); };
  if (far_ahead()) read();
  if (far_ahead()) read(/*all=*/true);
  waiting_.push_back({.tick = device_.record(stream_), .kind = kind, .nominal = nominal, .host = device_.now()});
}

void Meter::read(bool all) {
  while (!waiting_.empty()) {
    const Mark mark = waiting_.front();
    if (all) device_.synchronize(mark.tick);
    else if (!device_.query(mark.tick)) return;
    waiting_.pop_front();
    add(mark, at_ + device_.elapsed(last_, mark.tick));
    last_ = mark.tick;
  }
}

void Meter::add(const Mark& mark, Nanos end) {
  const Nanos took = end - at_;
  const auto spend = [&](Spent kind, Nanos time) { spent_[static_cast<std::size_t>(kind)] += time; };
  if (mark.kind == Spent::kernels || mark.kind == Spent::rebuilds) {
    const Nanos own = std::min(took, mark.nominal);
    spend(mark.kind, own);
    spend(Spent::beside_copies, took - own);
  } else {
    spend(end <= mark.host ? Spent::host : mark.kind, took);
  }
  at_ = end;
}

}  // namespace spillway
