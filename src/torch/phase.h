// Which part of a step the calling thread is in: told by autograd, or by the optimizer's hooks.
#pragma once

#include "trace/event.h"

namespace spillway {

// Phase::unknown goes back to what autograd tells.
void set_phase(Phase phase);
[[nodiscard]] Phase current_phase();

}  // namespace spillway
