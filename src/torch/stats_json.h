#pragma once

#include <string>

#include "torch/adapter.h"

namespace spillway {

// The summary's keys are a contract for tools (README).
[[nodiscard]] std::string stats_json(Adapter& adapter);

}  // namespace spillway
