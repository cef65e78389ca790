// A run played again, told: as lines and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/again.h"

namespace spillway {

[[nodiscard]] std::string to_text(const AgainResult& result);
[[nodiscard]] nlohmann::ordered_json to_json(const AgainResult& result);

}  // namespace spillway
