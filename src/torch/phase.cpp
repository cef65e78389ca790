#include "torch/phase.h"

#include <torch/csrc/autograd/graph_task.h>

namespace spillway {

namespace {

thread_local Phase told __attribute__((tls_model("initial-exec"))) = Phase::unknown;

}  // namespace

void set_phase(Phase phase) { told = phase; }

Phase current_phase() {
  if (told != Phase::unknown) return told;
  return torch::autograd::get_current_graph_task_id() >= 0 ? Phase::backward : Phase::forward;
}

}  // namespace spillway
