#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "report/page.h"
#include "report/perfetto.h"
#include "trace/check.h"
#include "trace/reader.h"

namespace spillway {
namespace {

struct ReportOptions {
  std::string trace, page, perfetto, title;
};

void write_whole(const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::ofstream out(path, std::ios::binary);
  if (!out) throw InputError(path + ": cannot be opened for writing");
  write(out);
  out.flush();
  if (!out) throw InputError(path + ": cannot be written");
  const auto position = out.tellp();
  fmt::print("{}{}\n", path, position < 0 ? "" : fmt::format(": {}", to_text(Bytes{position})));
}

// A trace with a flaw is still worth looking at; whoever looks must know.
Trace read_warily(const std::string& file) {
  Trace trace = read_trace(file);
  if (const auto problems = check_trace(trace, 1); !problems.empty())
    fmt::print(stderr, "spillway: {}: event {} is unlawful, so the page may be wrong there: {}\n", file,
               problems[0].event, problems[0].what);
  if (trace.truncated)
    fmt::print(stderr, "spillway: {} ends in the middle of a block; the report ends with what is whole\n", file);
  return trace;
}

void run_report(const ReportOptions& options) {
  if (options.page.empty() && options.perfetto.empty())
    throw InputError(
        "where to? Name a page with -o page.html, a file for the Perfetto viewer with --perfetto, or both");
  const Trace trace = read_warily(options.trace);
  if (!options.page.empty()) {
    const std::string title =
        options.title.empty() ? std::filesystem::path(options.trace).filename().string() : options.title;
    const std::string page = to_page(trace, {.title = title});
    write_whole(options.page, [&](std::ostream& out) { out << page; });
  }
  if (!options.perfetto.empty()) write_whole(options.perfetto, [&](std::ostream& out) { write_perfetto(trace, out); });
}

}  // namespace

void add_report(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand("report", "Draw a trace as one page for the browser");
  command->add_option("trace", options->trace, "A trace file (.spt)")->required();
  command->add_option("-o,--output", options->page, "The page to write (.html)");
  command->add_option("--perfetto", options->perfetto, "Write a file for the Perfetto viewer (.json), too or instead");
  command->add_option("--title", options->title, "What the page is called; the trace's name unless told");
  command->callback([options] { run_report(*options); });
}

}  // namespace spillway
