#include "device/host/host_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>

#include "base/error.h"

namespace spillway {
namespace {

using testing::HasSubstr;

constexpr Bytes kGranule = 64_KiB;

HostOptions with_file(FileCalls calls = FileCalls::system()) {
  return {.granule = kGranule, .file = SpillFileOptions{.folder = "/var/tmp", .calls = std::move(calls)}};
}

void open_all(HostDevice& device, Bytes size) {
  for (Tier tier : {Tier::device, Tier::host, Tier::file}) {
    device.reserve(tier, size);
    ASSERT_TRUE(device.try_commit(tier, {0_B, size}));
  }
}

std::string told_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(HostDevice, HasTheMemoryOfTheMachineUnlessLimited) {
  EXPECT_EQ(HostDevice().facts().memory.count, sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
  EXPECT_EQ(HostDevice({.memory = 64_MiB}).facts().memory, 64_MiB);
}

TEST(HostDevice, RefusesAGranuleThatIsNotWholePages) {
  EXPECT_THROW(HostDevice({.granule = 1000_B}), InvariantError);
  EXPECT_THROW(HostDevice({.granule = 0_B}), InvariantError);
}

TEST(HostDevice, CommitsEveryGranuleSizeAskedFor) {
  for (Bytes granule : {4_KiB, 64_KiB, 2_MiB}) {
    HostDevice device({.granule = granule});
    device.reserve(Tier::device, granule * 3);
    EXPECT_TRUE(device.try_commit(Tier::device, {granule, granule * 2}));
    std::memset(device.address(Tier::device, granule), 1, static_cast<std::size_t>(granule.count));
  }
}

TEST(HostDevice, RefusesMemoryTheSystemDoesNotGive) {
  HostDevice device({.granule = kGranule});
  device.reserve(Tier::device, 1_GiB);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  rlimit low = before;
  low.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &low), 0);
  const bool given = device.try_commit(Tier::device, {0_B, 512_MiB});
  setrlimit(RLIMIT_DATA, &before);
  EXPECT_FALSE(given);
  EXPECT_EQ(device.committed(Tier::device), 0_B);
  EXPECT_TRUE(device.try_commit(Tier::device, {0_B, 512_MiB}));
}

TEST(HostDevice, PoisonsFreshMemoryWhenAsked) {
  HostDevice device({.granule = kGranule, .poison = true});
  device.reserve(Tier::device, kGranule);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(device.try_commit(Tier::device, {0_B, kGranule}));
    std::byte* bytes = device.address(Tier::device, 0_B);
    EXPECT_EQ(std::count(bytes, bytes + kGranule.count, HostDevice::kPoison), kGranule.count);
    std::memset(bytes, 0, static_cast<std::size_t>(kGranule.count));
    device.decommit(Tier::device, {0_B, kGranule});
  }
}

using HostDeviceDeathTest = testing::Test;

TEST(HostDeviceDeathTest, FaultsOnALateReadOfMemoryThatWasGivenBack) {
  HostDevice device({.granule = kGranule});
  device.reserve(Tier::device, kGranule);
  ASSERT_TRUE(device.try_commit(Tier::device, {0_B, kGranule}));
  volatile std::byte* at = device.address(Tier::device, 0_B);
  at[0] = std::byte{1};
  device.decommit(Tier::device, {0_B, kGranule});
  EXPECT_DEATH((void)static_cast<std::byte>(at[0]), "");
}

TEST(HostDevice, RefusesTheFileTierWithoutAFolderAndCanBeAskedAgain) {
  HostDevice bare({.granule = kGranule});
  EXPECT_THROW(bare.reserve(Tier::file, kGranule), InputError);
  HostDevice in_ram({.granule = kGranule, .file = SpillFileOptions{.folder = "/dev/shm"}});
  EXPECT_THROW(in_ram.reserve(Tier::file, kGranule), InputError);
  EXPECT_THROW(in_ram.reserve(Tier::file, kGranule), InputError) << "a refused reservation is none";
  EXPECT_THROW((void)in_ram.try_commit(Tier::file, {0_B, kGranule}), InvariantError);
}

// ---------------------------------------------------------------------------------------------- the caller's stream

TEST(HostDevice, CallerStreamWorksInline) {
  HostDevice device(with_file());
  open_all(device, kGranule);
  const StreamId caller = device.caller_stream();
  std::memset(device.address(Tier::device, 0_B), 42, static_cast<std::size_t>(kGranule.count));
  device.copy(caller, {Tier::file, 0_B}, {Tier::device, 0_B}, kGranule);
  device.copy(caller, {Tier::host, 0_B}, {Tier::file, 0_B}, kGranule);
  EXPECT_EQ(device.address(Tier::host, 0_B)[kGranule.count - 1], std::byte{42}) << "no wait was needed";
  const Tick tick = device.record(caller);
  EXPECT_TRUE(device.query(tick));
  EXPECT_EQ(device.elapsed(tick, tick), 0_ns);
}

TEST(HostDevice, CallerStreamWaitsByBlockingTheCaller) {
  HostDevice device;
  const StreamId stream = device.open_stream();
  bool ran = false;
  device.call(stream, [&] { ran = true; });
  device.wait(device.caller_stream(), device.record(stream));
  EXPECT_TRUE(ran);
}

TEST(HostDevice, WaitingForACallerTickHoldsNothing) {
  HostDevice device;
  const StreamId stream = device.open_stream();
  device.wait(stream, device.record(device.caller_stream()));
  device.synchronize(device.record(stream));
  EXPECT_THROW(device.wait(stream, {device.caller_stream(), 2}), InvariantError);
}

TEST(HostDevice, CallerStreamThrowsItsOwnFailuresAtOnceAndStaysUsable) {
  FileCalls calls = FileCalls::system();
  calls.read = [](int, void*, std::size_t, off_t) -> ssize_t { return errno = EIO, -1; };
  HostDevice device(with_file(calls));
  open_all(device, kGranule);
  const StreamId caller = device.caller_stream();
  EXPECT_THROW(device.copy(caller, {Tier::device, 0_B}, {Tier::file, 0_B}, kGranule), DeviceError);
  device.copy(caller, {Tier::device, 0_B}, {Tier::host, 0_B}, kGranule);
  EXPECT_TRUE(device.query(device.record(caller)));
}

// ------------------------------------------------------------------------------------------------------ failed copies

// reader   [file -> device: fails]   tick
// user     [wait for tick]           tick'      both ticks are done and tell of it; an untouched stream does not
TEST(HostDevice, TellsOfAFailedCopyAtEveryTickAfterIt) {
  FileCalls calls = FileCalls::system();
  calls.read = [](int, void*, std::size_t, off_t) -> ssize_t { return errno = EIO, -1; };
  HostDevice device(with_file(calls));
  open_all(device, kGranule);
  const StreamId reader = device.open_stream(), user = device.open_stream(), other = device.open_stream();
  const Tick before = device.record(reader);
  device.copy(reader, {Tier::device, 0_B}, {Tier::file, 0_B}, kGranule);
  const Tick failed = device.record(reader);
  device.wait(user, failed);
  const Tick inherited = device.record(user);
  EXPECT_THAT(told_by([&] { device.synchronize(failed); }), HasSubstr("Input/output error"));
  EXPECT_THAT(told_by([&] { (void)device.query(failed); }), HasSubstr("Input/output error"));
  EXPECT_THAT(told_by([&] { device.synchronize(inherited); }), HasSubstr("Input/output error"));
  EXPECT_THAT(told_by([&] { device.wait(device.caller_stream(), failed); }), HasSubstr("Input/output error"));
  EXPECT_TRUE(device.query(before));
  device.synchronize(device.record(other));
}

// The limit on file length comes down behind the device's back: the copy is cut short by the system, then refused.
TEST(HostDevice, SurvivesARealWriteError) {
  HostDevice device(with_file());
  open_all(device, 1_MiB);
  const StreamId writer = device.open_stream();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 512 << 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  device.copy(writer, {Tier::file, 0_B}, {Tier::device, 0_B}, 1_MiB);
  const Tick tick = device.record(writer);
  const std::string told = told_by([&] { device.synchronize(tick); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(told, HasSubstr("File too large"));
}

TEST(HostDevice, TellsOfAFailedCall) {
  HostDevice device;
  const StreamId stream = device.open_stream();
  device.call(stream, [] { throw std::runtime_error("not today"); });
  const Tick tick = device.record(stream);
  EXPECT_EQ(told_by([&] { device.synchronize(tick); }), "not today");
}

TEST(HostDevice, MayGoWithAFailedStream) {
  HostDevice device;
  const StreamId stream = device.open_stream(), waiter = device.open_stream();
  device.call(stream, [] { throw std::runtime_error("not today"); });
  device.wait(waiter, device.record(stream));
}

// ---------------------------------------------------------------------------------------------------------- the rest

TEST(HostDevice, RefusesMoreStreamsThanItCanHave) {
  HostDevice device;
  for (std::uint32_t i = 1; i < HostDevice::kMaxStreams; ++i) (void)device.open_stream();
  EXPECT_THROW((void)device.open_stream(), InvariantError);
}

// The child has none of the parent's threads: it reads through the caller's stream and goes without waiting for them.
TEST(HostDevice, AForkedChildCanReadAndGo) {
  auto device = std::make_unique<HostDevice>(with_file());
  open_all(*device, kGranule);
  const StreamId stream = device->open_stream();
  std::memset(device->address(Tier::device, 0_B), 42, static_cast<std::size_t>(kGranule.count));
  device->copy(stream, {Tier::file, 0_B}, {Tier::device, 0_B}, kGranule);
  device->synchronize(device->record(stream));
  const pid_t child = fork();
  if (child == 0) {
    device->copy(device->caller_stream(), {Tier::host, 0_B}, {Tier::file, 0_B}, kGranule);
    const bool equal = device->address(Tier::host, 0_B)[100] == std::byte{42};
    device.reset();
    _exit(equal ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace spillway
