// Short sequences of pool calls that shrink: when a law breaks, RapidCheck reports about the shortest sequence that
// does it.
//
// The same shadow judges as in pool_shadow_test.cpp, on a pool of a few granules where every call matters.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cstdlib>
#include <ostream>
#include <vector>

#include "pool/pool.h"
#include "pool_audit.h"

namespace spillway::shadow {

enum class Call : std::uint8_t { allocate, free, free_unused, finish, wait, trim };

// `number` picks the size, the chunk or the tick, whatever the call needs.
struct Move {
  Call call;
  std::uint32_t stream;
  std::uint32_t number;
};

inline std::ostream& operator<<(std::ostream& out, const Move& move) {
  static constexpr std::array kNames{"allocate", "free", "free_unused", "finish", "wait", "trim"};
  return out << kNames[static_cast<std::size_t>(move.call)] << "(stream " << move.stream << ", " << move.number << ")";
}

}  // namespace spillway::shadow

template <>
struct rc::Arbitrary<spillway::shadow::Move> {
  static Gen<spillway::shadow::Move> arbitrary() {
    using spillway::shadow::Call;
    const auto call = gen::weightedElement<Call>({{6, Call::allocate},
                                                  {5, Call::free},
                                                  {1, Call::free_unused},
                                                  {2, Call::finish},
                                                  {2, Call::wait},
                                                  {1, Call::trim}});
    return gen::construct<spillway::shadow::Move>(call, gen::inRange<std::uint32_t>(0, 3),
                                                  gen::inRange<std::uint32_t>(0, 64));
  }
};

namespace spillway::shadow {
namespace {

class Player {
 public:
  std::vector<Violation> play(const std::vector<Move>& moves) {
    for (const Move& move : moves) {
      play(move);
      pool_.verify();
    }
    shadow_.compare(pool_.stats());
    return shadow_.violations();
  }

 private:
  static constexpr std::uint32_t kStreams = 3;
  static constexpr PoolOptions kOptions{.address_space = 256_KiB, .limit = 128_KiB, .granule = 16_KiB, .slab = 0_B};
  struct Live {
    ChunkId chunk;
    StreamId owner;
  };

  void play(const Move& move) {
    const StreamId stream{move.stream};
    const Tick newest = shadow_.order.newest(stream);
    switch (move.call) {
      case Call::allocate:
        return allocate(Bytes{1 + 997 * move.number}, stream);
      case Call::free:
        return free(move.number, /*used=*/true);
      case Call::free_unused:
        return free(move.number, /*used=*/false);
      case Call::finish:
        return finish({stream, newest.value * move.number / 63});
      case Call::wait:
        return wait(StreamId{move.number % kStreams}, newest);
      case Call::trim:
        return trim();
    }
  }

  void allocate(Bytes size, StreamId on) {
    const std::optional<Grant> answer = pool_.try_allocate(size, on);
    if (!answer) {
      shadow_.refuse();
      return audit_.judge_refusal(size);
    }
    const std::vector<Tick> owed(answer->waits.begin(), answer->waits.end());
    Grant grant = *answer;
    grant.waits = owed;
    audit_.judge_grant(size, on, grant);
    shadow_.grant(size, on, grant, owed);
    audit_.take(grant);
    for (const Tick tick : owed) wait(on, tick);
    live_.push_back({grant.chunk, on});
  }

  void free(std::uint32_t number, bool used) {
    if (live_.empty()) return;
    const Live live = live_[number % live_.size()];
    live_.erase(live_.begin() + number % live_.size());
    std::vector<Tick> last_uses;
    if (used) last_uses.push_back(shadow_.record(live.owner));
    audit_.free(live.chunk, pool_.range(live.chunk), last_uses);
    shadow_.free(live.chunk, last_uses);
    pool_.free(live.chunk, last_uses);
  }

  void finish(Tick tick) {
    if (tick.value == 0) return;
    shadow_.finish(tick);
    pool_.note_done(tick);
  }

  void wait(StreamId waiter, Tick tick) {
    if (tick.value == 0 || tick.stream == waiter) return;
    const std::uint64_t position = shadow_.order.newest(waiter).value;
    shadow_.wait(waiter, tick, /*tell=*/true);
    pool_.note_wait(waiter, tick, position);
  }

  void trim() {
    const std::vector<Range> given = pool_.trim();
    shadow_.trim(given);
    for (const Range range : given) audit_.decommit(range);
    audit_.judge_trim();
  }

  Pool pool_{kOptions};
  ShadowPool shadow_{kOptions, kStreams};
  PoolAudit audit_{shadow_};
  std::vector<Live> live_;
};

// RapidCheck reads its seed and length from RC_PARAMS alone; a value given from outside wins.
TEST(PoolSequences, AreLawfulForEveryShortSequenceOfCalls) {
  setenv("RC_PARAMS", "seed=17 max_success=300", /*overwrite=*/0);
  EXPECT_TRUE(rc::check([](const std::vector<Move>& moves) {
    for (const Violation& violation : Player().play(moves)) RC_FAIL(violation.law + ": " + violation.detail);
  }));
}

}  // namespace
}  // namespace spillway::shadow
