// Copies made before anybody asks for the memory, in steps without a plan: who leaves with one leaves at once.
//
// Whoever leaves by a copy keeps those waiting who want its memory, while the link had nothing to do before. So once somebody
// had to leave, idle storages are copied out ahead of need, in pieces, as the link is free; they stay where they are, and a
// write makes the copy worthless. Nobody knows yet who will have to leave:
//
//   copied ahead and still there, or for nothing  <=  what left otherwise / kEarlyParts,  in a step
//
// The books belong to the engine's lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "engine/record.h"

namespace spillway {

// One direction of the link, by the ops' own times: the host may be far ahead of the device, so its clock tells nothing.
class LinkTime {
 public:
  // The device has done one more op.
  void pass(Nanos op) { before_ = now_, now_ += op; }
  // A copy was enqueued; the link may have been free while the newest op ran.
  void book(Nanos copy) { until_ = std::max(until_, before_) + copy; }
  // What is still to be copied when the newest op is done.
  [[nodiscard]] Nanos ahead() const { return std::max(until_ - now_, 0_ns); }

 private:
  Nanos before_, now_, until_;
};

// How much more may be copied ahead. `left`: by any other way; `waste`: was copied and has not left.
[[nodiscard]] Bytes early_allowance(Bytes left, Bytes waste);

struct Early {
  struct Candidate {
    double score = 0;  // the lowest first
    Record* record = nullptr;
    StorageId id;
  };
  // A copy that is not complete yet.
  struct Part {
    Record* record = nullptr;
    StorageId id;
    std::uint32_t epoch = 0, departures = 0;
    LowerCopy copy;
    Bytes done;
    // The bytes are those it began with.
    [[nodiscard]] bool is_good() const {
      return record->id == id && record->epoch == epoch && record->departures == departures && record->residence == Residence::resident && !record->exposed();
    }
  };

  LinkTime out, in;
  Bytes out_booked, in_booked;      // of the engine's own counts
  std::uint64_t timed = 0;          // the newest op whose time was told
  Bytes left_before, copied, used;  // the counts when the step began; copied ahead in it, and of that what left
  std::vector<Candidate> queue;
  std::size_t next = 0;
  std::int64_t listed = -1;         // evictions when the queue was made
  std::uint64_t listed_at = 0;      // the op
  std::optional<Part> part;
  Bytes prepared;                   // host memory that was asked for
  std::atomic<std::uint64_t> step{0};  // another thread stops preparing when it changes
};

}  // namespace spillway
