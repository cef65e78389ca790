#include "trace/writer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace spillway {
namespace {

// A model has a few hundred op names, a run a few thousand reasons; this only stops a leak.
constexpr std::size_t kMaxNames = 65'536;
constexpr std::string_view kTooManyNames = "(more names than a trace keeps)";
constexpr std::size_t kMaxText = 64 * 1024;

// The tail is rewritten when at least as much was appended as a rewrite costs, so that every byte is written about
// twice, and not for less than this, so that small steps do not rewrite it at each end.
constexpr std::uint64_t kRewriteSlack = 1024 * 1024;

}  // namespace

TraceWriter::TraceWriter(std::unique_ptr<Sink> sink, WriterOptions options)
    : sink_(std::move(sink)),
      options_(options),
      bounded_(options.first_steps != UINT32_MAX),
      tail_(options.last_steps, options.most_tail) {
  append_for_good(make_file_header());
  if (bounded_ && options_.first_steps == 0) end_head();
}

TraceWriter::TraceWriter(const std::string& path, WriterOptions options)
    : TraceWriter(std::make_unique<FileSink>(path), options) {}

TraceWriter::~TraceWriter() {
  try {
    close();
  } catch (...) {  // only memory can run out here; what was sealed is with the sink
  }
}

void TraceWriter::fail() {
  if (!status_.broken) status_.problem = sink_->problem();
  status_.broken = true;
}

void TraceWriter::append(std::span<const std::uint8_t> bytes) {
  if (status_.broken) return;
  if (!sink_->append(bytes)) return fail();
  written_ += bytes.size();
}

void TraceWriter::append_for_good(std::span<const std::uint8_t> bytes) {
  append(bytes);
  permanent_ = written_;
}

template <class E>
void TraceWriter::add(const E& event) {
  if (block_.full()) seal();
  if (status_.broken) {
    ++status_.lost_events;
    return;
  }
  block_.add(event);
}

void TraceWriter::seal() {
  if (block_.empty()) return;
  const std::uint32_t events = block_.events();
  const auto block = block_.seal();
  if (!bounded_) {
    append(block);
  } else if (in_head_) {
    append_for_good(block);
    tail_.pass(block);
    if (permanent_ > static_cast<std::uint64_t>(options_.most_head.count)) end_head();
  } else {
    append(block);
    tail_.keep(block);
    tail_.bound();
    settle();
  }
  if (status_.broken) status_.lost_events += events;
}

void TraceWriter::end_head() {
  in_head_ = false;
  tail_.begin();
}

void TraceWriter::end_step(JobId job) {
  if (std::ranges::find(jobs_, job) == jobs_.end()) jobs_.push_back(job);
  ++steps_;
  const bool was_head = in_head_;
  if (was_head && steps_ < std::uint64_t{options_.first_steps} * jobs_.size()) return;
  seal();
  if (was_head) {
    if (in_head_) end_head();
    return;
  }
  tail_.end_step(jobs_.size());
  settle();
}

void TraceWriter::settle() {
  const std::uint64_t cost = std::max(settled_, static_cast<std::uint64_t>(tail_.size().count));
  if (tail_.behind() && written_ - permanent_ > 2 * cost + kRewriteSlack) rewrite_tail();
}

// Note [Rewriting the tail]
// The file is cut behind what stays for good, then summaries, what holds now, and the kept steps are appended. A crash
// in between loses the kept steps (they are only in memory then) but nothing that was for good, and the file stays
// readable.
void TraceWriter::rewrite_tail() {
  if (status_.broken) return;
  if (!sink_->truncate(permanent_)) return fail();
  written_ = permanent_;
  for (const StepSummary& summary : tail_.take_summaries()) {
    if (block_.full()) append_for_good(block_.seal());
    block_.add(summary);
  }
  if (!block_.empty()) append_for_good(block_.seal());
  tail_.standing().announce([&](const auto& event) {
    if (block_.full()) append(block_.seal());
    block_.add(event);
  });
  append(block_.seal());
  tail_.each_segment([&](std::span<const std::uint8_t> blocks) { append(blocks); });
  settled_ = written_ - permanent_;
}

NameId TraceWriter::intern(std::string_view text) {
  const auto found = names_.find(text);
  return found != names_.end() ? found->second : intern_new(text);
}

NameId TraceWriter::intern_new(std::string_view text) {
  std::string clean = names_.size() + 1 < kMaxNames ? clean_text(text, kMaxText) : std::string(kTooManyNames);
  const NameId next{static_cast<std::uint32_t>(names_.size())};
  const auto [entry, added] = names_.try_emplace(std::move(clean), next);
  if (added) add(Name{.id = next, .text = entry->first});
  return entry->second;
}

template <class E>
void TraceWriter::write(const E& event) {
  SPILLWAY_ENSURE(!closed_, "a closed trace takes no more events");
  if constexpr (std::is_same_v<E, Name>) {
    SPILLWAY_ENSURE(intern(event.text) == event.id, "names are announced once each, in the order of their ids");
  } else if constexpr (std::is_same_v<E, Fact>) {
    add(Fact{clean_text(event.key, kMaxText), clean_text(event.value, kMaxText)});
  } else {
    add(event);
  }
  if constexpr (std::is_same_v<E, StepEnd>) {
    if (bounded_) end_step(event.job);
  }
}

void TraceWriter::write(const Event& event) {
  std::visit([&](const auto& one) { write(one); }, event);
}

void TraceWriter::flush() { seal(); }

const WriterStatus& TraceWriter::close() {
  if (std::exchange(closed_, true)) return status_;
  seal();
  if (tail_.behind()) rewrite_tail();
  return status_;
}

std::optional<std::string> TraceWriter::take_problem() {
  if (!status_.broken || std::exchange(problem_taken_, true)) return std::nullopt;
  return status_.problem;
}

template void TraceWriter::write(const Fact&);
template void TraceWriter::write(const Name&);
template void TraceWriter::write(const StepBegin&);
template void TraceWriter::write(const StepEnd&);
template void TraceWriter::write(const StorageBirth&);
template void TraceWriter::write(const StorageDeath&);
template void TraceWriter::write(const StorageRole&);
template void TraceWriter::write(const Op&);
template void TraceWriter::write(const OpView&);
template void TraceWriter::write(const Allocation&);
template void TraceWriter::write(const Release&);
template void TraceWriter::write(const Refusal&);
template void TraceWriter::write(const Reserved&);
template void TraceWriter::write(const Move&);
template void TraceWriter::write(const Recompute&);
template void TraceWriter::write(const Stall&);
template void TraceWriter::write(const BudgetChange&);
template void TraceWriter::write(const PlanMade&);
template void TraceWriter::write(const Decision&);
template void TraceWriter::write(const StepSummary&);
template void TraceWriter::write(const Restart&);
template void TraceWriter::write(const Call&);
template void TraceWriter::write(const CallView&);

}  // namespace spillway
