// enable() and disable(): options as Python gives them, the device they ask for, the adapter over it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "torch/adapter.h"

namespace spillway {

void start(const nlohmann::json& options);
// Brings everything home; throws InputError and stays on when that does not fit.
void stop(Adapter& adapter);

}  // namespace spillway
