// When whoever is away should start its way back while a step goes without a plan: the forward just seen foretells the
// backward.
//
// A backward wants what its forward used, the last used first, and takes about twice as long. What the forward did not use
// (optimizer state, say) is wanted when the backward is over, in the order it was made; so is what the backward has used
// already. Each copy starts as late as lets it and those behind it arrive in time: memory is short, and who comes early lies
// in the way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "engine/course.h"

namespace spillway {

// The ops of a forward by the engine's count: how long each takes, and how much memory.
class ForwardPass {
 public:
  void begin(std::uint64_t clock) { from_ = clock, until_.assign(1, 0_ns), needs_.assign(1, 0_B); }
  // The count never falls.
  void add(std::uint64_t clock, Nanos time, Bytes need);
  [[nodiscard]] bool covers(std::uint64_t clock) const { return clock > from_ && clock - from_ < until_.size(); }
  // From the end of the op of this count to the end of the forward.
  [[nodiscard]] Nanos rest_after(std::uint64_t clock) const { return until_.back() - until_[clock - from_]; }
  [[nodiscard]] std::uint64_t from() const { return from_; }
  [[nodiscard]] Nanos whole() const { return until_.back(); }
  // The most that an op in [first, last] takes.
  [[nodiscard]] Bytes need_between(std::uint64_t first, std::uint64_t last) const;

 private:
  std::uint64_t from_ = 0;
  std::vector<Nanos> until_{0_ns};  // by op, from the first
  std::vector<Bytes> needs_{0_B};
};

// The engine's books of a step without a plan.
struct Returns {
  struct Coming {
    Course::Gone who;
    Nanos start;
    std::uint64_t next_use = 0;  // as the forward has it
  };
  bool backward = false;
  ForwardPass forward;
  std::uint64_t from = 0, at = 0;  // the engine's count when the backward began; the op of the forward it has come to
  std::int64_t listed = -1;        // evictions when the queue was made
  std::vector<Coming> queue;
  std::size_t next = 0;
  Bytes need;                      // of the newest op
};

struct Away {
  StorageId storage;
  Bytes size;
  std::uint64_t next_use = 0;  // by the engine's count
};

struct Return {
  std::size_t at = 0;  // among those away
  Nanos start;         // since the backward began, by its foretold times
};

// The first wanted first.
[[nodiscard]] std::vector<Return> plan_returns(std::span<const Away> away, const ForwardPass& forward, double nanos_per_byte, Nanos per_copy);

// How far the backward is when it wants what was last used by this op of the forward.
[[nodiscard]] Nanos backward_time(const ForwardPass& forward, std::uint64_t last_use);

// The op of the forward that the backward, having come back to the op `at`, has yet to reach when it wants a storage: the one
// that used it last, or else the one that made it. 0: it is wanted when the backward is over.
[[nodiscard]] std::uint64_t next_use(const ForwardPass& forward, std::uint64_t at, std::uint64_t made, std::uint64_t used);

}  // namespace spillway
