#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "trace/check.h"
#include "trace/json_lines.h"
#include "trace/reader.h"
#include "trace/summary.h"

namespace spillway {
namespace {

struct ExportOptions {
  std::string trace, out;
  bool summary = false;
};

void warn_of_early_end(const std::string& file, bool truncated, Bytes whole_until) {
  if (!truncated) return;
  fmt::print(stderr, "spillway: {} ends in the middle of a block; what is whole ends at byte {}\n", file,
             whole_until.count);
}

void export_lines(const std::string& file, std::ostream& out) {
  TraceReader reader(file);
  JsonLinesWriter lines(out);
  while (const auto event = reader.next()) lines.write(*event);
  warn_of_early_end(file, reader.truncated(), reader.whole_until());
}

void export_summary(const std::string& file, std::ostream& out) {
  const Trace trace = read_trace(file);
  out << to_table(trace);
  for (const TraceProblem& problem : check_trace(trace))
    out << fmt::format("unlawful event {}: {}\n", problem.event, problem.what);
  warn_of_early_end(file, trace.truncated, trace.whole_until);
}

void run_export(const ExportOptions& options) {
  std::ofstream file;
  if (!options.out.empty()) {
    file.open(options.out);
    if (!file) throw InputError(options.out + ": cannot be opened for writing");
  }
  std::ostream& out = options.out.empty() ? std::cout : file;
  options.summary ? export_summary(options.trace, out) : export_lines(options.trace, out);
  out.flush();
  if (!out)
    throw InputError(fmt::format("{}: cannot be written", options.out.empty() ? "standard output" : options.out));
}

}  // namespace

void add_export(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("export", "Show a trace as JSON lines, one event each, or as a table");
  command->add_option("trace", options->trace, "A trace file (.spt)")->required();
  command->add_option("-o,--output", options->out, "Write here instead of standard output");
  command->add_flag("--summary", options->summary, "A table of what the trace holds instead of its events");
  command->callback([options] { run_export(*options); });
}

}  // namespace spillway
