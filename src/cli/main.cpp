#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "base/error.h"
#include "cli/command.h"

namespace {

// What a shell and a script can tell apart.
constexpr int kFailed = 1;
constexpr int kBadInput = 2;

int complain(const char* what, int code) {
  std::fprintf(stderr, "spillway: %s\n", what);
  return code;
}

// Commands that need Python: the `spillway` of the package carries them out itself and never asks us.
void add_commands_in_python(CLI::App& app) {
  const auto add = [&](const std::string& name, const char* what) {
    CLI::App* command = app.add_subcommand(name, what);
    command->prefix_command();
    command->callback([name] { throw spillway::InputError("'" + name + "' needs Python: use the spillway command of the package, or python -m spillway"); });
  };
  add("run", "Run a training script inside a byte budget, or only watch it");
  add("verify", "Run a script plain and inside a budget, and name the first bit that differs");
  add("bench", "Measure training steps on this machine's card: plain, other ways to save memory, and inside budgets");
  add("doctor", "Say what this machine offers and what is wrong with it");
}

// In the order --help lists them.
void add_commands(CLI::App& app) {
  add_commands_in_python(app);
  spillway::add_export(app);
  spillway::add_forecast(app);
  spillway::add_import(app);
  spillway::add_plan(app);
  spillway::add_report(app);
  spillway::add_simulate(app);
}

// CLI11 ends --help and --version with an error of exit code 0; only those print what it carries.
int run(int argc, char** argv) {
  CLI::App app("Spillway keeps PyTorch training inside a byte budget.", "spillway");
  app.set_version_flag("--version", SPILLWAY_VERSION);
  add_commands(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw spillway::InputError("which command? See --help");
    return 0;
  } catch (const CLI::RuntimeError& answer) {
    return answer.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return complain((std::string(error.what()) + "; see --help").c_str(), kBadInput);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const spillway::InputError& error) {
    return complain(error.what(), kBadInput);
  } catch (const std::exception& error) {
    return complain(error.what(), kFailed);
  }
}
