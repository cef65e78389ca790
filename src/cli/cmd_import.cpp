#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "trace/check.h"
#include "trace/json_lines.h"
#include "trace/recorded_step.h"
#include "trace/writer.h"

namespace spillway {
namespace {

struct ImportOptions {
  std::string from, out;
};

Trace read_foreign(const std::string& path) {
  return path.ends_with(".jsonl") ? import_jsonl(path) : import_recorded_step(path);
}

void run_import(const ImportOptions& options) {
  const Trace trace = read_foreign(options.from);
  if (const auto problems = check_trace(trace, 1); !problems.empty())
    throw InputError(fmt::format("{}: event {}: {}", options.from, problems[0].event, problems[0].what));
  TraceWriter writer(options.out, WriterOptions::keep_all());
  for (const Event& event : trace.events) writer.write(event);
  if (const WriterStatus& status = writer.close(); status.broken) throw InputError(status.problem);
  fmt::print("{}: {} events\n", options.out, trace.events.size());
}

}  // namespace

void add_import(CLI::App& app) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* command =
      app.add_subcommand("import", "Make a trace of exported JSON lines (.jsonl) or of a recorded step (.json.gz)");
  command->add_option("from", options->from, "The file to read")->required();
  command->add_option("-o,--output", options->out, "The trace to write (.spt)")->required();
  command->callback([options] { run_import(*options); });
}

}  // namespace spillway
