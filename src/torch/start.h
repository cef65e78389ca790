// enable() and disable(): options as Python gives them, the device they ask for, the adapter over it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "torch/adapter.h"

namespace spillway {

void start(const nlohmann::json& options);
// Memory is taken in granules: a budget below one is InputError.
void refuse_below_smallest(Bytes budget, Bytes granule);
// Throws InputError, and changes nothing, when what cannot leave is more.
void set_budget(Adapter& adapter, std::optional<Bytes> budget);
// Ends the trace, if one is written: what it holds is then whole.
void close_trace(Adapter& adapter);
// Brings everything home; throws InputError and stays on when that does not fit.
void stop(Adapter& adapter);

}  // namespace spillway
