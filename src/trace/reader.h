// Reads a trace file event by event, trusting nothing in it.
//
// A file that ends early (a crash, a full disk) gives its whole blocks and then truncated() with the offset. A file
// that is foreign, damaged or hostile gives an InputError naming file, byte offset and what was expected there. Memory:
// one block at a time, never more than the file really holds.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/block.h"
#include "trace/encode.h"
#include "trace/event.h"
#include "trace/trace.h"

namespace spillway {

class TraceReader {
 public:
  // Throws InputError when the file cannot be read or does not begin like a trace.
  explicit TraceReader(const std::string& path);
  // `name` stands for the file in messages.
  TraceReader(std::span<const std::uint8_t> bytes, std::string name);
  ~TraceReader();
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;

  // Empty at the end.
  [[nodiscard]] std::optional<Event> next();

  // Known at the end: the bytes stop in the middle of a header or block, which begins at whole_until().
  [[nodiscard]] bool truncated() const { return truncated_; }
  [[nodiscard]] Bytes whole_until() const { return {static_cast<std::int64_t>(whole_until_)}; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_.texts(); }

 private:
  TraceReader(std::unique_ptr<std::istream> from, std::string name);
  void read_file_header();
  bool read_block();
  // Up to `size` bytes; fewer only at the end of the file.
  std::size_t read(std::uint8_t* to, std::size_t size);
  void end_early();
  void check_names(const Event& event);

  std::unique_ptr<std::istream> from_;
  std::string file_;
  std::vector<std::uint8_t> payload_;
  std::optional<Decoder> decoder_;
  std::uint32_t events_left_ = 0;
  EventScratch scratch_;
  NameBook names_;
  std::uint64_t at_ = 0, whole_until_ = 0;
  bool truncated_ = false;
};

// The whole file as a value.
[[nodiscard]] Trace read_trace(const std::string& path);
[[nodiscard]] Trace read_trace(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace spillway
