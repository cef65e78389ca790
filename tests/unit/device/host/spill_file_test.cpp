#include "device/host/spill_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace spillway {
namespace {

using testing::HasSubstr;

const std::string kFolder = "/var/tmp";

std::string refusal(const std::string& folder) {
  try {
    const SpillFile file({.folder = folder});
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

std::vector<std::byte> pattern(Bytes size, unsigned seed) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size.count));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 4096 + seed);
  return bytes;
}

// What stat says the file takes on the disk.
Bytes on_disk(const SpillFile& file) {
  struct stat status {};
  fstat(file.descriptor(), &status);
  return {status.st_blocks * 512};
}

std::int64_t pages_in_cache(const SpillFile& file, Bytes size) {
  const auto length = static_cast<std::size_t>(size.count);
  void* mapping = mmap(nullptr, length, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  std::vector<unsigned char> resident(length / 4096);
  if (mapping == MAP_FAILED || mincore(mapping, length, resident.data()) != 0) return -1;
  munmap(mapping, length);
  return std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; });
}

class SpillFileModes : public testing::TestWithParam<bool> {
 protected:
  SpillFile file_{{.folder = kFolder, .direct = GetParam()}};
  Bounce bounce_;
};

INSTANTIATE_TEST_SUITE_P(DirectAndCached, SpillFileModes, testing::Bool(),
                         [](const auto& info) { return info.param ? "direct" : "cached"; });

// Lengths around a block and around the bounce buffer, from aligned and odd addresses.
TEST_P(SpillFileModes, GivesBackWhatWasWritten) {
  ASSERT_TRUE(file_.try_commit({0_B, 8_MiB}));
  auto room = pattern(4_MiB, 0);
  const auto aligned = static_cast<std::size_t>(-reinterpret_cast<std::intptr_t>(room.data()) & 4095);
  unsigned seed = 1;
  for (Bytes size : {1_B, 511_B, 4095_B, 4_KiB, 4097_B, 1_MiB - 1_B, 1_MiB, 1_MiB + 1_B, 2_MiB + 4097_B}) {
    for (std::size_t shift : {std::size_t{0}, std::size_t{512}, std::size_t{3}}) {
      const auto written = pattern(size, ++seed);
      std::byte* at = room.data() + aligned + shift;
      std::copy(written.begin(), written.end(), at);
      file_.write(1_MiB, at, size, bounce_);
      std::memset(at, 0, written.size());
      at[written.size()] = std::byte{77};
      file_.read(1_MiB, at, size, bounce_);
      EXPECT_EQ(std::memcmp(at, written.data(), written.size()), 0) << size.count << " bytes, shift " << shift;
      EXPECT_EQ(at[written.size()], std::byte{77}) << "the byte behind";
    }
  }
}

TEST_P(SpillFileModes, LeavesNothingInThePageCache) {
  ASSERT_TRUE(file_.try_commit({0_B, 16_MiB}));
  auto bytes = pattern(16_MiB, 1);
  file_.write(0_B, bytes.data(), 16_MiB, bounce_);
  EXPECT_EQ(pages_in_cache(file_, 16_MiB), 0);
  file_.read(0_B, bytes.data(), 16_MiB, bounce_);
  EXPECT_EQ(pages_in_cache(file_, 16_MiB), 0);
}

TEST(SpillFile, UsesDirectInputAndOutputWhereTheFileSystemCan) {
  const int probe = open(kFolder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT, 0600);
  if (probe < 0) GTEST_SKIP() << kFolder << " cannot do direct I/O: " << std::strerror(errno);
  close(probe);
  EXPECT_TRUE(SpillFile({.folder = kFolder}).direct());
}

TEST(SpillFile, FallsBackToWholePagesWhenTheDiskAsksForThem) {
  SpillFileOptions options{.folder = kFolder};
  options.calls.write = [](int file, const void* from, std::size_t size, off_t offset) -> ssize_t {
    if (reinterpret_cast<std::uintptr_t>(from) % 4096 != 0) return errno = EINVAL, -1;
    return ::pwrite(file, from, size, offset);
  };
  SpillFile file(options);
  ASSERT_TRUE(file.try_commit({0_B, 2_MiB}));
  Bounce bounce, source;
  file.write(0_B, source.bytes() + 512, 512_KiB, bounce);
  EXPECT_EQ(file.direct(), SpillFile({.folder = kFolder}).direct());
}

TEST(SpillFile, TakesRoomOnTheDiskAtCommitAndGivesItBack) {
  SpillFile file({.folder = kFolder});
  EXPECT_EQ(on_disk(file), 0_B);
  ASSERT_TRUE(file.try_commit({4_MiB, 12_MiB}));
  EXPECT_GE(on_disk(file), 8_MiB);
  file.decommit({4_MiB, 12_MiB});
  EXPECT_LT(on_disk(file), 1_MiB);
}

TEST(SpillFile, HasNoNameAndIsPrivate) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "spillway_private";
  std::filesystem::create_directory(folder);
  for (bool named : {false, true}) {
    SpillFileOptions options{.folder = folder};
    if (named) options.calls.open_unnamed = [](const char*) { return errno = EOPNOTSUPP, -1; };
    const SpillFile file(options);
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    struct stat status {};
    ASSERT_EQ(fstat(file.descriptor(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    EXPECT_EQ(status.st_nlink, 0U);
    EXPECT_NE(fcntl(file.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  }
  std::filesystem::remove(folder);
}

TEST(SpillFile, RefusesAFolderInRamAndSaysWhatHelps) {
  const std::string told = refusal("/dev/shm");
  EXPECT_THAT(told, HasSubstr("'/dev/shm'"));
  EXPECT_THAT(told, HasSubstr("tmpfs"));
  EXPECT_THAT(told, HasSubstr("--spill-dir"));
}

TEST(SpillFile, RefusesAFolderThatIsMissingOrNone) {
  EXPECT_THAT(refusal("/nowhere/at/all"), HasSubstr("'/nowhere/at/all' does not exist"));
  EXPECT_THAT(refusal("/etc/passwd"), HasSubstr("is not a folder"));
  EXPECT_THAT(refusal(""), HasSubstr("does not exist"));
}

TEST(SpillFile, RefusesAFolderItMayNotWriteTo) {
  SpillFileOptions options{.folder = kFolder};
  for (auto [error, told] : {std::pair{EACCES, "is not writable"}, {EROFS, "read-only"}, {ENOSPC, "no room"}}) {
    options.calls.open_unnamed = [error = error](const char*) { return errno = error, -1; };
    try {
      const SpillFile file(options);
      FAIL() << told;
    } catch (const InputError& refused) {
      EXPECT_THAT(refused.what(), HasSubstr(told));
      EXPECT_THAT(refused.what(), HasSubstr("--spill-dir"));
    }
  }
}

TEST(SpillFile, RefusesACommitWhenTheDiskIsFullAndGivesBackWhatItTook) {
  SpillFileOptions options{.folder = kFolder};
  Bytes punched;
  options.calls.allocate = [&](int file, int mode, off_t offset, off_t length) {
    if (mode != 0) punched = {length};
    if (mode == 0 && offset >= (4 << 20)) return errno = ENOSPC, -1;
    return ::fallocate(file, mode, offset, length);
  };
  SpillFile file(options);
  EXPECT_TRUE(file.try_commit({0_B, 4_MiB}));
  EXPECT_FALSE(file.try_commit({4_MiB, 8_MiB}));
  EXPECT_EQ(punched, 4_MiB);
  EXPECT_LT(on_disk(file), 5_MiB);
}

TEST(SpillFile, RefusesACommitNoDiskHasRoomFor) {
  SpillFile file({.folder = kFolder});
  EXPECT_FALSE(file.try_commit({0_B, 1024_GiB * 1024}));
  EXPECT_FALSE(file.try_commit({0_B, 1024_GiB * 1024 * 1024}));
  EXPECT_LT(on_disk(file), 1_MiB);
}

TEST(SpillFile, DoesNotTryToTakeMoreThanIsFree) {
  SpillFileOptions options{.folder = kFolder};
  bool tried = false;
  options.calls.allocate = [&](int, int, off_t, off_t) { return tried = true, errno = ENOSPC, -1; };
  EXPECT_FALSE(SpillFile(options).try_commit({0_B, 1024_GiB * 1024}));
  EXPECT_FALSE(tried);
}

TEST(SpillFile, RefusesACommitBeyondTheLongestFileAllowed) {
  SpillFile file({.folder = kFolder});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 8 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const bool within = file.try_commit({0_B, 8_MiB});
  const bool beyond = file.try_commit({8_MiB, 10_MiB});
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(within);
  EXPECT_FALSE(beyond);
}

TEST(SpillFile, ReservesByWritingWhereTheFileSystemCannotReserve) {
  SpillFileOptions options{.folder = kFolder};
  options.calls.allocate = [](int, int, off_t, off_t) { return errno = EOPNOTSUPP, -1; };
  SpillFile file(options);
  ASSERT_TRUE(file.try_commit({0_B, 3_MiB + 64_KiB}));
  EXPECT_GE(on_disk(file), 3_MiB + 64_KiB);
  EXPECT_NO_THROW(file.decommit({0_B, 1_MiB}));
}

TEST(SpillFile, RefusesACommitWhenReservingByWritingFillsTheDisk) {
  SpillFileOptions options{.folder = kFolder};
  options.calls.allocate = [](int, int, off_t, off_t) { return errno = EOPNOTSUPP, -1; };
  options.calls.write = [](int file, const void* from, std::size_t size, off_t offset) -> ssize_t {
    if (offset >= (2 << 20)) return errno = ENOSPC, -1;
    return ::pwrite(file, from, size, offset);
  };
  EXPECT_FALSE(SpillFile(options).try_commit({0_B, 4_MiB}));
}

TEST(SpillFile, FallsBackToTheCacheWhenDirectWritesAreRefused) {
  SpillFileOptions options{.folder = kFolder};
  options.calls.write = [](int file, const void* from, std::size_t size, off_t offset) -> ssize_t {
    if ((fcntl(file, F_GETFL) & O_DIRECT) != 0) return errno = EINVAL, -1;
    return ::pwrite(file, from, size, offset);
  };
  SpillFile file(options);
  EXPECT_FALSE(file.direct());
  ASSERT_TRUE(file.try_commit({0_B, 1_MiB}));
  Bounce bounce;
  const auto written = pattern(1_MiB, 9);
  auto found = pattern(1_MiB, 0);
  file.write(0_B, written.data(), 1_MiB, bounce);
  file.read(0_B, found.data(), 1_MiB, bounce);
  EXPECT_EQ(found, written);
}

// Every second call is interrupted, the others come no further than 12 KiB, or end inside a block.
TEST(SpillFile, CarriesOnAfterShortAndInterruptedCalls) {
  SpillFileOptions options{.folder = kFolder};
  int calls = 0;
  options.calls.read = [&](int file, void* to, std::size_t size, off_t offset) -> ssize_t {
    if (++calls % 2 == 1) return errno = EINTR, -1;
    const ssize_t done = ::pread(file, to, std::min<std::size_t>(size, 12 << 10), offset);
    return calls % 3 == 0 && done > 8192 ? done - 100 : done;
  };
  options.calls.write = [&](int file, const void* from, std::size_t size, off_t offset) -> ssize_t {
    if (++calls % 2 == 1) return errno = EINTR, -1;
    return ::pwrite(file, from, std::min<std::size_t>(size, 12 << 10), offset);
  };
  SpillFile file(options);
  ASSERT_TRUE(file.try_commit({0_B, 1_MiB}));
  Bounce bounce;
  const Bytes size = 300_KiB + 17_B;
  const auto written = pattern(size, 5);
  auto found = pattern(size, 0);
  file.write(0_B, written.data(), size, bounce);
  file.read(0_B, found.data(), size, bounce);
  EXPECT_EQ(found, written);
  EXPECT_GT(calls, 50);
}

TEST(SpillFile, TellsWhichCallFailedWhereAndWhy) {
  SpillFileOptions options{.folder = kFolder};
  options.calls.read = [](int, void*, std::size_t, off_t) -> ssize_t { return errno = EIO, -1; };
  SpillFile file(options);
  ASSERT_TRUE(file.try_commit({0_B, 1_MiB}));
  Bounce bounce;
  auto bytes = pattern(8_KiB, 0);
  try {
    file.read(64_KiB, bytes.data(), 8_KiB, bounce);
    FAIL() << "the read failed";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("spill file in '/var/tmp': reading 8192 bytes at 65536 failed: Input/output error"));
  }
}

TEST(SpillFile, DoesNotLoopForeverAtTheEndOfTheFile) {
  SpillFile file({.folder = kFolder});
  Bounce bounce;
  auto bytes = pattern(8_KiB, 0);
  EXPECT_THROW(file.read(0_B, bytes.data(), 8_KiB, bounce), DeviceError);
}

TEST(SpillFile, TellsOfFailuresThatAreNotAFullDisk) {
  SpillFileOptions options{.folder = kFolder};
  options.calls.allocate = [](int, int, off_t, off_t) { return errno = EIO, -1; };
  SpillFile file(options);
  EXPECT_THROW((void)file.try_commit({0_B, 1_MiB}), DeviceError);
  EXPECT_THROW(file.decommit({0_B, 1_MiB}), DeviceError);
}

}  // namespace
}  // namespace spillway
