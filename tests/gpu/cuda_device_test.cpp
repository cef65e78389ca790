// What a card does beyond the contract: streams of others, the driver's own count of memory, slabs, failures.
#include <future>
#include <mutex>
#include <thread>

#include "device/cuda/driver.h"
#include "gpu/cuda_subject.h"

namespace spillway {
namespace {

using CudaDeviceTest = OnACard;

TEST_F(CudaDeviceTest, DriverCountsWhatIsCommittedAndNothingElse) {
  CudaDevice& device = open();
  const Bytes before = device.free_memory();
  commit(Tier::device, {0_B, 512_MiB});
  EXPECT_EQ(before - device.free_memory(), 512_MiB);
  device.decommit(Tier::device, {100_MiB, 300_MiB});
  EXPECT_EQ(before - device.free_memory(), 312_MiB);
  device.decommit(Tier::device, {0_B, 100_MiB});
  device.decommit(Tier::device, {300_MiB, 512_MiB});
  EXPECT_EQ(device.free_memory(), before);
}

TEST_F(CudaDeviceTest, GranuleIsRoundedUpToWhatTheDriverCanDo) {
  EXPECT_EQ(CudaDevice({.granule = 3_MiB}).facts().granule, 4_MiB);
  EXPECT_EQ(CudaDevice({.granule = 1_B}).facts().granule, CudaDevice().facts().granule);
}

TEST_F(CudaDeviceTest, DestructionGivesEverythingBack) {
  open();
  const Bytes before = device_->free_memory();
  commit(Tier::device, {64_MiB, 128_MiB});
  commit(Tier::device, {256_MiB, 258_MiB});
  device_.reset();
  EXPECT_EQ(open().free_memory(), before);
}

TEST_F(CudaDeviceTest, MoreThanTheCardHasIsRefusedAndNothingIsKept) {
  const Bytes whole = round_up(CudaDevice().facts().memory, kGranule);
  CudaDevice& device = open({}, whole + 1_GiB);
  const Bytes before = device.free_memory();
  commit(Tier::device, {0_B, kGranule});
  EXPECT_FALSE(device.try_commit(Tier::device, {kGranule, kGranule + whole}));
  EXPECT_EQ(device.committed(Tier::device), kGranule);
  EXPECT_EQ(before - device.free_memory(), kGranule);
  commit(Tier::device, {kGranule, kGranule * 2});
}

TEST_F(CudaDeviceTest, AdoptingAStreamTwiceGivesTheSameId) {
  CudaDevice& device = open();
  CUstream_st* const other = device.handle(device.open_stream());  // of the same card, as torch's are
  const StreamId legacy = device.adopt_stream(nullptr), adopted = device.adopt_stream(other);
  EXPECT_EQ(device.adopt_stream(nullptr), legacy);
  EXPECT_EQ(device.adopt_stream(other), adopted);
  EXPECT_NE(legacy, adopted);
  EXPECT_EQ(device.handle(adopted), other);
}

// theirs   [held....][copy a -> b] tick
// ours     [wait for tick        ][copy b -> host]
TEST_F(CudaDeviceTest, AdoptedStreamIsOrderedWithOurs) {
  CudaDevice& device = open();
  const StreamId theirs = device.adopt_stream(nullptr), ours = device.open_stream();
  commit(Tier::device, {0_B, kGranule * 2});
  commit(Tier::host, {0_B, kGranule * 2});
  fill(0_B, kGranule, 7);
  fill(kGranule, kGranule, 0);
  device.copy(ours, {Tier::device, 0_B}, {Tier::host, 0_B}, kGranule);
  finish(ours);
  std::promise<void> gate;
  device.call(theirs, [opened = gate.get_future().share()] { opened.wait(); });
  device.copy(theirs, {Tier::device, kGranule}, {Tier::device, 0_B}, kGranule);
  device.wait(ours, device.record(theirs));
  device.copy(ours, {Tier::host, kGranule}, {Tier::device, kGranule}, kGranule);
  const Tick last = device.record(ours);
  EXPECT_FALSE(device.query(last));
  gate.set_value();
  device.synchronize(last);
  EXPECT_TRUE(holds(kGranule, kGranule, 7));
}

TEST_F(CudaDeviceTest, TicksOfAdoptedStreamsHaveATimeOnlyWhenAskedFor) {
  for (const bool timed : {false, true}) {
    CudaDevice& device = open({.time_adopted = timed});
    const StreamId adopted = device.adopt_stream(nullptr);
    const Tick first = device.record(adopted), last = device.record(adopted);
    device.synchronize(last);
    if (timed) {
      EXPECT_GE(device.elapsed(first, last), 0_ns);
    } else {
      EXPECT_THROW((void)device.elapsed(first, last), InvariantError);
    }
  }
}

TEST_F(CudaDeviceTest, OneTickOfAnAdoptedStreamHasATimeWhereItIsAskedFor) {
  CudaDevice& device = open();
  const StreamId adopted = device.adopt_stream(nullptr), ours = device.open_stream();
  const Tick plain = device.record(adopted), first = device.record_timed(adopted);
  for (int i = 0; i < 100; ++i) (void)device.record(adopted);
  const Tick last = device.record_timed(adopted), beside = device.record(ours);
  device.synchronize(last);
  device.synchronize(beside);
  EXPECT_GE(device.elapsed(first, last), 0_ns);
  EXPECT_LE(device.elapsed(last, first), 0_ns);
  EXPECT_EQ(device.elapsed(last, beside), -device.elapsed(beside, last));
  EXPECT_THROW((void)device.elapsed(plain, last), InvariantError);
  for (std::uint64_t i = 0; i < kTickWindow; ++i) (void)device.record(adopted);
  device.synchronize(device.record_timed(adopted));
  EXPECT_THROW((void)device.elapsed(first, last), InvariantError);
}

// |  slab  |  slab  |slab|      one copy over all three, and back
TEST_F(CudaDeviceTest, CopiesRunAcrossSlabs) {
  CudaDevice& device = open({.host_slab = 4_MiB});
  const StreamId stream = device.open_stream();
  const Bytes size = 10_MiB;
  commit(Tier::host, {0_B, 20_MiB});
  commit(Tier::device, {0_B, size});
  for (int i = 0; i < 5; ++i) fill(2_MiB * i, 2_MiB, i + 1);
  device.copy(stream, {Tier::device, 0_B}, {Tier::host, 3_B}, size - 7_B);
  device.copy(stream, {Tier::host, size + 3_B}, {Tier::device, 0_B}, size - 7_B);
  finish(stream);
  EXPECT_EQ(std::memcmp(device.address(Tier::host, size + 3_B), device.address(Tier::host, 3_B),
                        static_cast<std::size_t>((size - 7_B).count)), 0);
}

// Note [A slab in part]: the middle of a slab leaves while copies of its two ends are still under way.
TEST_F(CudaDeviceTest, RestOfASlabKeepsItsBytesAndItsCopies) {
  CudaDevice& device = open();
  const StreamId stream = device.open_stream();
  commit(Tier::host, {0_B, 64_MiB});
  commit(Tier::device, {0_B, 64_MiB});
  fill(0_B, 20_MiB, 3);
  for (int i = 0; i < 20; ++i) device.copy(stream, {Tier::device, 0_B}, {Tier::host, 0_B}, 20_MiB);
  for (int i = 0; i < 20; ++i) device.copy(stream, {Tier::host, 40_MiB}, {Tier::device, 0_B}, 20_MiB);
  device.decommit(Tier::host, {20_MiB, 40_MiB});
  EXPECT_TRUE(holds(0_B, 20_MiB, 3));
  EXPECT_TRUE(holds(40_MiB, 20_MiB, 3));
  fill(40_MiB, 20_MiB, 9);
  device.copy(stream, {Tier::device, 0_B}, {Tier::host, 40_MiB}, 20_MiB);
  device.copy(stream, {Tier::host, 0_B}, {Tier::device, 0_B}, 20_MiB);
  finish(stream);
  EXPECT_TRUE(holds(0_B, 20_MiB, 9));
}

// A slot of device memory goes from stream to stream, each time with the tick of its last use. Whoever gets it waits on
// the device alone, writes its own value, reads it back through a second copy and checks it. Without the wait the
// copies of two owners overlap.
TEST_F(CudaDeviceTest, MemoryHandedFromStreamToStreamIsNeverSharedByTwo) {
  constexpr int kThreads = 6, kSlots = 3, kRounds = 50;
  constexpr Bytes kSlot = 8_MiB;
  CudaDevice& device = open();
  commit(Tier::device, {0_B, kSlot * kSlots});
  commit(Tier::host, {0_B, kSlot * (2 * kThreads)});
  struct Free { Bytes slot; Tick last_use; };
  std::vector<Free> free;
  std::mutex mutex;
  const StreamId first = device.open_stream();
  for (int i = 0; i < kSlots; ++i) free.push_back({kSlot * i, {first, 0}});

  const auto own_and_pass_on = [&](int thread) {
    const StreamId stream = device.open_stream();
    const Bytes source = kSlot * (2 * thread), target = source + kSlot;
    for (int round = 0; round < kRounds;) {
      std::unique_lock lock(mutex);
      if (free.empty()) {
        lock.unlock();
        std::this_thread::yield();
        continue;
      }
      Free mine = free.front();
      free.erase(free.begin());
      lock.unlock();
      const int value = 1 + (thread * kRounds + round) % 255;
      fill(source, kSlot, value);
      device.wait(stream, mine.last_use);
      device.copy(stream, {Tier::device, mine.slot}, {Tier::host, source}, kSlot);
      device.copy(stream, {Tier::host, target}, {Tier::device, mine.slot}, kSlot);
      mine.last_use = device.record(stream);
      lock.lock();
      free.push_back(mine);
      lock.unlock();
      device.synchronize(mine.last_use);
      ASSERT_TRUE(holds(target, kSlot, value)) << "thread " << thread << ", round " << round;
      ++round;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(own_and_pass_on, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CudaDeviceTest, CommitsRunBesideCopies) {
  CudaDevice& device = open();
  const StreamId stream = device.open_stream();
  commit(Tier::host, {0_B, 32_MiB});
  commit(Tier::device, {0_B, 32_MiB});
  fill(0_B, 32_MiB, 5);
  std::thread grower([&] {
    for (int i = 1; i <= 8; ++i) {
      EXPECT_TRUE(device.try_commit(Tier::host, {64_MiB * i, 64_MiB * (i + 1)}));
      EXPECT_TRUE(device.try_commit(Tier::device, {64_MiB * i, 64_MiB * (i + 1)}));
      device.decommit(Tier::device, {64_MiB * i, 64_MiB * (i + 1)});
    }
  });
  for (int i = 0; i < 100; ++i) {
    device.copy(stream, {Tier::device, 0_B}, {Tier::host, 0_B}, 16_MiB);
    device.copy(stream, {Tier::host, 16_MiB}, {Tier::device, 0_B}, 16_MiB);
  }
  finish(stream);
  grower.join();
  EXPECT_TRUE(holds(16_MiB, 16_MiB, 5));
}

TEST_F(CudaDeviceTest, ThreadWithoutAContextMayCallAndHasNoneAfterwards) {
  CudaDevice& device = open();
  std::thread([&] {
    const StreamId stream = device.open_stream();
    device.synchronize(device.record(stream));
    CUcontext current = nullptr;
    SPILLWAY_CU(cuCtxGetCurrent, &current);
    EXPECT_EQ(current, nullptr);
  }).join();
}

TEST_F(CudaDeviceTest, FailedWriteToTheFileIsToldByTheTicksAfterIt) {
  SpillFileOptions broken{.folder = "/var/tmp"};
  broken.calls.write = [](int, const void*, std::size_t, off_t) { errno = EIO; return ssize_t{-1}; };
  CudaDevice& device = open({.file = broken});
  device.reserve(Tier::file, 64_MiB);
  const StreamId stream = device.open_stream();
  commit(Tier::file, {0_B, kGranule});
  commit(Tier::device, {0_B, kGranule});
  device.copy(stream, {Tier::file, 0_B}, {Tier::device, 0_B}, kGranule);
  const Tick after = device.record(stream);
  EXPECT_THROW(device.synchronize(after), DeviceError);
  EXPECT_THROW((void)device.query(after), DeviceError);
}

TEST_F(CudaDeviceTest, NoSpillFolderMeansNoFileTierAndSaysWhatHelps) {
  CudaDevice& device = open();
  try {
    device.reserve(Tier::file, 64_MiB);
    FAIL() << "reserved a file tier without a folder";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("--spill-dir"), std::string::npos);
  }
}

TEST_F(CudaDeviceTest, FailedCallIsNamedWithTheDriversReason) {
  try {
    SPILLWAY_CU(cuMemUnmap, 0, 12345);
    FAIL() << "the driver unmapped nothing at all";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("cuMemUnmap: "), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("CUDA_ERROR_"), std::string::npos);
  }
}

TEST_F(CudaDeviceTest, CardThatIsNotThereIsAnInputError) {
  EXPECT_THROW(CudaDevice({.card = 999}), InputError);
  EXPECT_NE(CudaDevice::why_unavailable(999), "");
}

// On a machine without a card everything here must still load, and say why it cannot be used.
TEST(CudaDeviceAnywhere, SaysWhyThereIsNoneOrMakesOne) {
  if (const std::string problem = CudaDevice::why_unavailable(); problem.empty()) {
    EXPECT_EQ(CudaDevice().facts().granule % 2_MiB, 0_B);
  } else {
    EXPECT_THROW(CudaDevice(), InputError) << problem;
  }
}

}  // namespace
}  // namespace spillway
