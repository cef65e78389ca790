// The commands of spillway-tool: one function each, one file each.
//
// To add `spillway-tool export`: write src/cli/cmd_export.cpp with `void add_export(CLI::App& app)`, declare it below in
// alphabetical order, and call it in add_commands() in main.cpp. The function adds a subcommand, binds its options to
// values held by a shared_ptr that the callback captures, and does the work in the callback. A callback prints results
// to stdout, throws InputError for anything the user can mend, and returns normally otherwise: main() turns the error
// into one sentence on stderr and exit code 2. What was answered and is a no throws CLI::RuntimeError with its exit code.
#pragma once

namespace CLI {
class App;
}

namespace spillway {

void add_export(CLI::App& app);
void add_forecast(CLI::App& app);
void add_import(CLI::App& app);
void add_plan(CLI::App& app);
void add_report(CLI::App& app);
void add_simulate(CLI::App& app);

// Exit codes of answers that are a no.
inline constexpr int kDoesNotFit = 3;  // a budget cannot be met
inline constexpr int kDiffers = 4;     // a run played again went another way

}  // namespace spillway
