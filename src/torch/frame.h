// The op now running on this thread, for error messages and for what is allocated inside it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <span>

#include "engine/engine.h"

namespace spillway {

struct Frame {
  const c10::OperatorHandle* op = nullptr;
  std::span<const Use> uses;
  Frame* outer = nullptr;
  bool replay = false;
};

// Innermost frame of the calling thread; null outside any op.
[[nodiscard]] Frame*& current_frame();

class FrameGuard {
 public:
  FrameGuard(const c10::OperatorHandle& op, std::span<const Use> uses, bool replay) : frame_{&op, uses, current_frame(), replay} {
    current_frame() = &frame_;
  }
  ~FrameGuard() { current_frame() = frame_.outer; }
  FrameGuard(const FrameGuard&) = delete;
  FrameGuard& operator=(const FrameGuard&) = delete;

 private:
  Frame frame_;
};

}  // namespace spillway
