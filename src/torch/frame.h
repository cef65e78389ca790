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

// Innermost frame of the calling thread; null outside any op. Safe in a signal handler: its place is made with the thread.
extern thread_local Frame* the_frame __attribute__((tls_model("initial-exec")));
[[nodiscard]] inline Frame*& current_frame() { return the_frame; }

// The name of the op that allocates on this thread. Valid while the op is registered.
[[nodiscard]] inline const char* current_maker() {
  const Frame* frame = current_frame();
  return frame == nullptr ? nullptr : frame->op->operator_name().name.c_str();
}

class FrameGuard {
 public:
  FrameGuard(const c10::OperatorHandle& op, std::span<const Use> uses, bool replay)
      : frame_{&op, uses, current_frame(), replay} {
    current_frame() = &frame_;
  }
  ~FrameGuard() { current_frame() = frame_.outer; }
  FrameGuard(const FrameGuard&) = delete;
  FrameGuard& operator=(const FrameGuard&) = delete;

 private:
  Frame frame_;
};

}  // namespace spillway
