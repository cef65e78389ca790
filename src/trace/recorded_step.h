// The recorded steps of traces/ (their README has the format) as traces.
//
// What was there before the step is born before it begins; what an op returned for the first time is born right before
// that op. Kinds, aliases and whether a replay is legal are not in the recording and are inferred (recorded_step.cpp
// says how). Bytes that were allocated but belong to no storage an op named become one storage of kind `workspace`.
#pragma once

#include <string>
#include <string_view>

#include "trace/trace.h"

namespace spillway {

// Throws InputError naming the file, the row and the field that is not as the README says.
[[nodiscard]] Trace import_recorded_step(const std::string& path);
// The same from the JSON text; `file` stands for the file in messages.
[[nodiscard]] Trace parse_recorded_step(std::string_view json, const std::string& file);

}  // namespace spillway
