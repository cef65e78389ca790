// Several threads under one budget: who waits for whom, and who gives up.
#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/engine.h"
#include "engine/own.h"

namespace spillway {

namespace {

constexpr int kMostIdleWaits = 250;  // of 20 ms: longer than any op, and short enough for whoever waits for an error

}  // namespace

thread_local Own own;

// Note [A turn alone]
// Every op fits into the budget by itself; two that run at once on two threads may not, and each may find that out in its
// middle, holding what the other lacks. Whoever is short waits as long as anybody else gets on. When nobody does, one whose op can
// run again gives it up: it lets go of everything, waits until the ops of all others have ended, while no new one begins, and
// runs again with the whole budget. One that has already written cannot: then another is asked to give up.

// With the lock, which it lets go of: until something changes, or for a moment.
void Engine::pause(Lock& lock) {
  const int pins = own.in_flight;
  const std::uint64_t changes = changed_.count();
  waiting_ += pins;
  minutes_.begin_pause();
  lock.unlock();
  void* held = owner_.begin_pause();
  lock.lock();
  if (changed_.count() == changes) changed_.wait_for(lock, std::chrono::milliseconds(20));
  lock.unlock();
  owner_.end_pause(held);
  lock.lock();
  minutes_.end_pause();
  waiting_ -= pins;
}

// Other threads' ops may let go of what they pin: worth waiting for, unless all of them wait as well. Whoever runs no op may be a
// part of another's kernel, which waits for it: where nobody gets on, it waits in vain.
bool Engine::wait_for_others(Lock& lock) {
  own.crowded = in_flight_ > own.in_flight;
  if (own.comes_again && own.crowded && std::exchange(asked_to_give_up_, false)) return false;
  if (in_flight_ - own.in_flight - waiting_ <= 0) {
    if (own.comes_again || patient_ == 0) return false;
    asked_to_give_up_ = true;
    changed_.tell();
  }
  const Nanos begin = device_.now();
  patient_ += own.comes_again ? 1 : 0;
  const std::uint64_t changes = changed_.count();
  pause(lock);
  patient_ -= own.comes_again ? 1 : 0;
  stats_.stalls.room += device_.now() - begin;
  own.idle_waits = own.in_flight == 0 && changed_.count() == changes ? own.idle_waits + 1 : 0;
  if (own.idle_waits < kMostIdleWaits) return true;
  own.idle_waits = 0;
  return false;
}

void Engine::wait_for_turns(Lock& lock) {
  while (turn_taken_ && own.turns == 0 && own.in_flight == 0) pause(lock);
}

void Engine::begin_turn(Lock& lock) {
  if (own.turns++ > 0) return;
  queued_ += own.in_flight;
  while (turn_taken_) pause(lock);
  turn_taken_ = true;
  while (in_flight_ > queued_) pause(lock);
  queued_ -= own.in_flight;
}

void Engine::end_turn() {
  if (--own.turns > 0) return;
  turn_taken_ = false;
  changed_.tell();
}

Turn::Turn(Engine& engine) : engine_(engine) {
  auto lock = engine_.lock();
  engine_.begin_turn(lock);
}

Turn::~Turn() {
  const auto lock = engine_.lock();
  engine_.end_turn();
}

ComesAgain::ComesAgain(bool may) : before_(own.comes_again) { own.comes_again = may; }
ComesAgain::~ComesAgain() { own.comes_again = before_; }

// --- what one op makes ------------------------------------------------------------------------------------------------

std::uint64_t Engine::begin_op() {
  end_op();
  own.metered = true;
  own.cannot_leave = live_ - evictable_ - in_ops_;
  own.beside_rebuild = rebuilding_ > own.rebuilding;
  return clock_;
}

void Engine::end_op() {
  if (own.metered) in_ops_ -= own.made;
  own.metered = false;
  own.made = own.most = 0_B;
}

void Engine::meter(Bytes more) {
  if (!own.metered) return;
  in_ops_ += more;
  own.made += more;
  own.most = std::max(own.most, own.made);
}

Bytes Engine::made_in_op() const { return std::max(own.made, 0_B); }
Bytes Engine::peak_in_op() const { return own.most; }

void Engine::begin_waiting() {
  const Lock lock(mutex_);
  waiting_ += own.in_flight;
}

void Engine::end_waiting() {
  const Lock lock(mutex_);
  waiting_ -= own.in_flight;
}

}  // namespace spillway
