// Appends events to a trace, cheaply enough to do it for every op of a training run.
//
// An op costs some tens of nanoseconds and no heap memory; a full block (64 KiB) goes to the sink in one write. A long
// run stays small: its first and last steps are kept whole, every step between them as one StepSummary; a Restart then
// marks where the whole events go on. After a crash the sink holds everything up to the last sealed block.
//
//   size of the file <= head + one summary per step + 3 * (the last steps and what lives when they begin) + 1 MiB
//
// A sink that fails never stops the run: the writer is broken from then on, counts what it loses and says so in
// status(). Not locked: the caller serialises.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "trace/block.h"
#include "trace/event.h"
#include "trace/sink.h"
#include "trace/tail.h"

namespace spillway {

struct WriterOptions {
  std::uint32_t first_steps = 3;  // of each job, kept whole
  std::uint32_t last_steps = 3;   // likewise
  // For runs whose steps are enormous or never seen to end: the first steps stop being whole after this many bytes of
  // file, the last ones keep no more than this in memory. 2 to 8 million ops each.
  Bytes most_head = 256_MiB, most_tail = 64_MiB;

  // Every event of every step: for simulations and imports, whose length is known.
  [[nodiscard]] static WriterOptions keep_all() { return {.first_steps = UINT32_MAX}; }
};

struct WriterStatus {
  bool broken = false;
  std::string problem;            // what the sink said, in words
  std::uint64_t lost_events = 0;  // not written since
};

class TraceWriter {
 public:
  explicit TraceWriter(std::unique_ptr<Sink> sink, WriterOptions options = {});
  // Throws InputError when the file cannot be opened.
  explicit TraceWriter(const std::string& path, WriterOptions options = {});
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // The id of a text, announced in the trace at its first use. A run that interns without end gets one id for all texts
  // after the 65,536th.
  [[nodiscard]] NameId intern(std::string_view text);

  // Any alternative of Event, or an OpView. A Name must be new and carry the next id, as when a trace is copied.
  template <class E>
  void write(const E& event);
  void write(const Event& event);

  // Hands what is buffered to the sink.
  void flush();
  // Flushes and settles the file; nothing may be written after it. The destructor does it otherwise.
  const WriterStatus& close();

  [[nodiscard]] const WriterStatus& status() const { return status_; }
  // What went wrong, once: empty when nothing did, or when it was taken before.
  [[nodiscard]] std::optional<std::string> take_problem();

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  template <class E>
  void add(const E& event);
  NameId intern_new(std::string_view text);
  void seal();
  void end_step(JobId job);
  void end_head();
  void settle();
  void rewrite_tail();
  void append(std::span<const std::uint8_t> bytes);
  void append_for_good(std::span<const std::uint8_t> bytes);
  void fail();

  std::unique_ptr<Sink> sink_;
  WriterOptions options_;
  bool bounded_;
  bool in_head_ = true;
  bool closed_ = false;
  bool problem_taken_ = false;
  BlockBuilder block_;
  Tail tail_;
  std::vector<JobId> jobs_;
  std::uint64_t steps_ = 0;      // ended so far
  std::uint64_t permanent_ = 0;  // bytes of the sink that stay: head and summaries
  std::uint64_t written_ = 0;    // bytes of the sink
  std::uint64_t settled_ = 0;    // bytes of the tail when it was last rewritten
  std::unordered_map<std::string, NameId, TextHash, std::equal_to<>> names_;
  WriterStatus status_;
};

}  // namespace spillway
