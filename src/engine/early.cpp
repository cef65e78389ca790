#include "engine/early.h"

#include <limits>
#include <utility>

#include "engine/engine.h"

namespace spillway {

namespace {

// What follows was tried over the recorded steps of traces/, see docs/results.md: half or twice as much changes little.
constexpr std::int64_t kEarlyParts = 4;
constexpr Bytes kSmallest = 1_MiB;       // below it a copy is all latency
constexpr Bytes kPiece = 16_MiB;         // who has to leave meanwhile waits for one
constexpr Nanos kLead = 1_ms;            // of pieces that are enqueued, for the same reason
constexpr std::uint64_t kIdleParts = 32; // of the forward's ops: who was used since then is in use
constexpr std::uint64_t kPassingParts = 4;  // the same, of what the backward made: most of that dies soon
constexpr std::int64_t kFar = 10;        // times the copy's own time, until the backward wants it
constexpr std::uint64_t kStale = 64;     // ops, until candidates are looked for again though nobody left

Nanos copy_time(Bytes bytes, double nanos_per_byte) { return Nanos{static_cast<std::int64_t>(static_cast<double>(bytes.count) * nanos_per_byte)}; }

}  // namespace

Bytes early_allowance(Bytes left, Bytes waste) { return left / kEarlyParts - waste; }

// Of the newest op, on the device; told once, because a view of what it made comes with the same count.
Nanos Engine::op_time(std::span<Record* const> outputs) {
  if (outputs.empty() || outputs.front()->recipes.empty() || outputs.front()->born != clock_) return 0_ns;
  return std::exchange(early_.timed, clock_) == clock_ ? 0_ns : outputs.front()->recipes.back()->time;
}

// After every op of a step without a plan.
void Engine::note_time(std::span<Record* const> outputs, Lock& lock) {
  const Nanos time = op_time(outputs);
  if (!returns_.backward) returns_.forward.add(clock_, time, returns_.need);
  early_.out.pass(time);
  early_.in.pass(time);
  if (is_tight() && !at_ease_ && plans() && rebuilding_ == 0) copy_early(lock);
}

void Engine::book_copies() {
  early_.out.book(copy_time(stats_.moved_out - std::exchange(early_.out_booked, stats_.moved_out), options_.costs.out_nanos_per_byte));
  early_.in.book(copy_time(stats_.moved_in - std::exchange(early_.in_booked, stats_.moved_in), options_.costs.in_nanos_per_byte));
}

void Engine::copy_early(Lock& lock) {
  book_copies();
  while (early_.out.ahead() <= kLead && (early_.part || begin_early(lock))) {
    copy_part();
    book_copies();
  }
}

// False: nobody is worth it now, or there is no place.
bool Engine::begin_early(Lock& lock) {
  const Bytes left = stats_.dropped + stats_.moved_out - early_.left_before - early_.copied;
  const Bytes most = early_allowance(left, early_.copied - early_.used);
  if (most < kSmallest || owner_.records_graph()) return false;
  if (early_.listed != stats_.evictions || clock_ - early_.listed_at > kStale) list_early();
  for (; early_.next < early_.queue.size(); ++early_.next) {
    const auto& [score, record, id] = early_.queue[early_.next];
    if (record->id != id || record->size > most || !is_idle(*record)) continue;
    const auto copy = mover_.try_place_there(record->size);
    if (!copy) {
      prepare_early(most, lock);
      return false;
    }
    early_.copied += record->size;
    early_.part = {.record = record, .id = id, .epoch = record->epoch, .departures = record->departures, .copy = *copy, .done = {}};
    ++early_.next;
    return true;
  }
  return false;
}

void Engine::list_early() {
  early_.listed = stats_.evictions;
  early_.listed_at = clock_;
  early_.queue.clear();
  early_.next = 0;
  table_.for_each([&](Record* record) {
    if (!is_idle(*record)) return;
    const double score = eviction_score(options_.policy, {.staleness = staleness(*record), .nanos = comeback_nanos(*record)});
    early_.queue.push_back({score / static_cast<double>(record->size.count), record, record->id});
  });
  // Of those nobody used in this step the youngest: parameters are older than what an optimizer keeps for them.
  std::ranges::sort(early_.queue, {}, [](const Early::Candidate& one) { return std::pair(one.score, std::numeric_limits<std::uint32_t>::max() - one.id.index); });
}

// Whether it is likely to stay unused for long, and would leave by a copy.
bool Engine::is_idle(const Record& record) const {
  if (record.size < kSmallest || record.copy || !may_leave(record)) return false;
  const std::uint64_t ops = (returns_.backward ? returns_.from : clock_) - returns_.forward.from();
  const bool passing = returns_.backward && record.born >= returns_.from;
  if (clock_ - record.last_use <= ops / (passing ? kPassingParts : kIdleParts)) return false;
  if (returns_.backward) {
    const Nanos wanted = backward_time(returns_.forward, next_use(returns_.forward, returns_.at, record.born, record.forward_use));
    if (wanted - backward_time(returns_.forward, returns_.at) < copy_time(record.size, options_.costs.out_nanos_per_byte) * kFar) return false;
  }
  return comeback_nanos(record) >= static_cast<double>(record.size.count) * options_.move_nanos_per_byte;
}

// Taking host memory is dear: it is another thread's work, as long as this step lasts.
void Engine::prepare_early(Bytes more, Lock& lock) {
  const Bytes bytes = mover_.used(Tier::host) + more;
  if (bytes <= early_.prepared) return;
  early_.prepared = bytes;
  do_later([this, bytes, step = early_.step.load()] { mover_.prepare_host(bytes, [&] { return early_.step.load() != step; }); }, lock);
}

void Engine::copy_part() {
  Early::Part& part = *early_.part;
  if (!part.is_good()) return drop_part();
  Record& record = *part.record;
  const Bytes size = std::min(kPiece, record.size - part.done);
  const std::vector<Tick> after = part.done == 0_B ? last_uses(record) : std::vector<Tick>{};
  mover_.move_out_part(part.copy, part.done, record.block.range.begin + part.done, size, after);
  record.read_until = part.copy.written;
  part.done += size;
  stats_.moved_out += size;
  if (part.done < record.size) return;
  record.copy = part.copy;
  early_.part.reset();
}

void Engine::drop_part() {
  if (early_.part) mover_.forget(early_.part->copy);
  early_.part.reset();
}

// The record leaves. True: a copy made ahead is complete now.
bool Engine::finish_early(const Record& record) {
  while (early_.part && early_.part->record == &record) copy_part();
  if (!record.copy || record.read_until.value == 0) return false;
  early_.used += record.size;
  return true;
}

void Engine::begin_early_step() {
  drop_part();
  early_.left_before = stats_.dropped + stats_.moved_out;
  early_.copied = early_.used = 0_B;
  early_.step.fetch_add(1);
  early_.prepared = 0_B;
}

}  // namespace spillway
