// A trace file as `plan` and `simulate` take it: read, checked, and one step of it looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "device/fake/card.h"
#include "liveness/curve.h"
#include "liveness/steps.h"
#include "trace/trace.h"

namespace CLI {
class App;
class Option;
}

namespace spillway {

struct StepInput {
  std::string file;
  std::optional<std::uint32_t> step;  // none: the last whole one
};

struct RecordedRun {
  Trace trace;
  WholeStep step;
  LiveCurve curve;  // of that step
  bool chosen = false;  // by the user
};

// A known card by name, or a card file by path. Throws InputError naming the known ones.
[[nodiscard]] Card read_card(const std::string& word);

// The device that the trace names as its own; empty: it names none.
[[nodiscard]] std::string recorded_on(const Trace& trace);
// A line that says so, if that is another than this card.
[[nodiscard]] std::string tell_recorded_elsewhere(const Trace& trace, const Card& card);

// A line that names the whole step with the highest peak, if that is another and not the user's choice.
[[nodiscard]] std::string tell_larger_step(const RecordedRun& run);

// Of the command's --budget: a percentage is of the step's peak, not of what a machine has. Throws InputError.
[[nodiscard]] Bytes read_budget(const std::string& word, const RecordedRun& run);

void add_step_input(CLI::App& command, StepInput& input);
// --rounds; what it holds is the default.
CLI::Option* add_rounds(CLI::App& command, int& rounds);

// Throws InputError when the file is missing, foreign or cut short, or is no lawful trace.
[[nodiscard]] Trace read_checked(const StepInput& input);
// The same when it holds no whole step, or not the one that is wanted.
[[nodiscard]] RecordedRun read_run(const StepInput& input);

}  // namespace spillway
