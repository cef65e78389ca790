// A small pool for tests: 1 MiB granules, no slabs unless asked for, every answer followed by verify().
#pragma once

#include <gmock/gmock.h>

#include <optional>
#include <vector>

#include "pool/pool.h"

namespace spillway {

inline constexpr StreamId A{0}, B{1}, C{2};

class PoolTest : public testing::Test {
 protected:
  static PoolOptions small() { return {.address_space = 64_MiB, .limit = 16_MiB, .granule = 1_MiB, .slab = 0_B}; }
  explicit PoolTest(const PoolOptions& options = small()) : pool(options) {}
  ~PoolTest() override { pool.verify(); }

  // A grant whose waits outlive the next call.
  struct Kept {
    ChunkId chunk;
    Range range;
    GrantClass granted;
    std::vector<Tick> waits;
    Range commit;
  };

  std::optional<Kept> try_allocate(Bytes size, StreamId on) {
    const auto grant = pool.try_allocate(size, on);
    pool.verify();
    if (!grant) return std::nullopt;
    return Kept{grant->chunk, grant->range, grant->granted, {grant->waits.begin(), grant->waits.end()}, grant->commit};
  }
  Kept allocate(Bytes size, StreamId on = A) {
    const auto kept = try_allocate(size, on);
    if (!kept) throw std::runtime_error("the test needs this to fit");
    return *kept;
  }
  void free(const Kept& kept, std::vector<Tick> last_uses) {
    pool.free(kept.chunk, last_uses);
    pool.verify();
  }

  // Fills the limit with chunks of a size, so that nothing grows any more.
  std::vector<Kept> fill(Bytes size, StreamId on = A) {
    std::vector<Kept> all;
    while (auto kept = try_allocate(size, on)) all.push_back(*kept);
    return all;
  }

  Pool pool;
};

}  // namespace spillway
