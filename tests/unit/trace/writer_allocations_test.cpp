// Counts heap allocations of the whole test binary; one test looks at the count.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "trace/writer.h"

namespace {
std::atomic<long> allocations{0};
}

// Not inlined: g++ 12 would see free() meet new() and take it for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace spillway {
namespace {

class NullSink final : public Sink {
 public:
  bool append(std::span<const std::uint8_t>) override { return true; }
  bool truncate(std::uint64_t) override { return true; }
  std::string problem() const override { return {}; }
};

TEST(TraceWriter, WritesOpsAndLivesWithoutAllocatingOnceItsBuffersHaveGrown) {
  TraceWriter writer(std::make_unique<NullSink>(), WriterOptions::keep_all());
  const StorageId inputs[] = {{0}, {1}, {2}};
  const auto write = [&](std::uint32_t i) {
    const StorageId output{i};
    writer.write(StorageBirth{output, 64_KiB, StorageKind::activation, JobId{0}, {i}});
    writer.write(OpView{.index = OpIndex{i},
                        .name = writer.intern("aten.convolution.default"),
                        .start = {i},
                        .inputs = inputs,
                        .outputs = {&output, 1}});
    writer.write(StorageDeath{output, {i}});
  };
  for (std::uint32_t i = 0; i < 20'000; ++i) write(i);
  const long before = allocations;
  for (std::uint32_t i = 20'000; i < 60'000; ++i) write(i);
  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace spillway
