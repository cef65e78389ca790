#include "device/host/mapped_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace spillway {
namespace {

std::int64_t resident_pages(const MappedArena& arena, Range range) {
  std::vector<unsigned char> pages(static_cast<std::size_t>(range.length().count / 4096));
  if (mincore(arena.begin() + range.begin.count, pages.size() * 4096, pages.data()) != 0) return -1;
  return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
}

TEST(MappedArena, BeginsAtTheAlignment) {
  const MappedArena arena(64_MiB, 2_MiB);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.begin()) % (2 << 20), 0U);
}

TEST(MappedArena, TakesMemoryWhenTouchedAndGivesItBack) {
  MappedArena arena(1024_GiB, 2_MiB);
  const Range range{512_GiB, 512_GiB + 4_MiB};
  ASSERT_TRUE(arena.try_commit(range));
  std::memset(arena.begin() + range.begin.count, 1, 4 << 20);
  EXPECT_EQ(resident_pages(arena, range), 1024);
  arena.decommit(range);
  EXPECT_EQ(resident_pages(arena, range), 0);
}

using MappedArenaDeathTest = testing::Test;

TEST(MappedArenaDeathTest, FaultsOnMemoryThatWasGivenBack) {
  MappedArena arena(8_MiB, 2_MiB);
  ASSERT_TRUE(arena.try_commit({0_B, 4_MiB}));
  volatile std::byte* at = arena.begin();
  at[0] = std::byte{1};
  arena.decommit({0_B, 2_MiB});
  at[2 << 20] = std::byte{1};
  EXPECT_DEATH(at[0] = std::byte{2}, "");
  EXPECT_DEATH((void)static_cast<std::byte>(at[4096]), "");
}

TEST(MappedArenaDeathTest, FaultsOnMemoryThatWasNeverCommitted) {
  const MappedArena arena(8_MiB, 2_MiB);
  volatile std::byte* at = arena.begin();
  EXPECT_DEATH((void)static_cast<std::byte>(at[0]), "");
}

TEST(MappedArena, SaysWhenThereAreNoSuchAddresses) {
  EXPECT_THROW(MappedArena(1024_GiB * 1024 * 1024, 2_MiB), DeviceError);
}

}  // namespace
}  // namespace spillway
