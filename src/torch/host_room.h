// How much RAM this process may still take: what the machine has free, and what its control groups leave.
#pragma once

#include "base/units.h"

namespace spillway {

[[nodiscard]] Bytes room_on_host();

}  // namespace spillway
