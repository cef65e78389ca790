// A trace as JSON lines, for people and their scripts: one object per event, nothing lost, and the way back.
//
// The first line says what this is; times are nanoseconds, sizes are bytes, "no id" is null. Names appear as their
// texts ("name": "aten.relu.default"), so that a line can be read by itself; the "name" events keep their numbers.
#pragma once

#include <iosfwd>
#include <string>

#include "trace/event.h"
#include "trace/trace.h"

namespace spillway {

class JsonLinesWriter {
 public:
  // Writes the first line.
  explicit JsonLinesWriter(std::ostream& out);
  // Events as a reader gives them: names announced before they are used.
  void write(const Event& event);

 private:
  std::ostream& out_;
  NameBook names_;
};

void export_jsonl(const Trace& trace, std::ostream& out);

// Throws InputError naming file, line, field and what is accepted there.
[[nodiscard]] Trace import_jsonl(std::istream& in, const std::string& file);
[[nodiscard]] Trace import_jsonl(const std::string& path);

}  // namespace spillway
