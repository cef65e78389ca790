#include "torch/draw.h"

#include <memory>
#include <mutex>

namespace spillway {

namespace {

std::mutex turn;

}  // namespace

Draw::Draw(Engine& engine) {
  if (turn.try_lock()) return;
  engine.begin_waiting();
  turn.lock();
  engine.end_waiting();
}

Draw::~Draw() { turn.unlock(); }

void forget_draws() { std::construct_at(&turn); }

}  // namespace spillway
