// Counts the heap allocations of this whole test binary, to show that a warm pool makes none.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>
#include <vector>

#include "pool/pool.h"

namespace {
std::int64_t allocations = 0;
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto step = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(step, (size + step - 1) / step * step)) return memory;
  throw std::bad_alloc();
}
// Inlined, g++ 12 would take free() for the wrong partner of new.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace spillway {
namespace {

// The same requests round after round, large and small, on two streams, some used by both.
std::int64_t allocations_of_a_round(Pool& pool, std::uint64_t& tick) {
  static std::vector<ChunkId> chunks;
  chunks.clear();
  chunks.reserve(64);
  const std::int64_t before = allocations;
  for (std::uint32_t i = 0; i < 64; ++i) {
    const auto grant = pool.try_allocate(1_KiB * (1 << (i % 12)), StreamId{i % 2});
    chunks.push_back(grant->chunk);
  }
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::array uses{Tick{{0}, ++tick}, Tick{{1}, tick}};
    pool.free(chunks[i * 7 % 64], std::span(uses).first(i % 5 == 0 ? 2 : 1));
  }
  for (std::uint32_t stream = 0; stream < 2; ++stream) pool.note_done({{stream}, tick});
  return allocations - before;
}

TEST(PoolAllocations, AWarmPoolMakesNone) {
  Pool pool({.address_space = 1_GiB, .limit = 512_MiB});
  std::uint64_t tick = 0;
  EXPECT_GT(allocations_of_a_round(pool, tick), 0) << "the first round warms up, and shows that the count works";
  for (int round = 0; round < 100; ++round) (void)allocations_of_a_round(pool, tick);
  for (int round = 0; round < 20; ++round) EXPECT_EQ(allocations_of_a_round(pool, tick), 0);
}

}  // namespace
}  // namespace spillway
