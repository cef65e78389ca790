// What the card's primitives cost here, printed. Nothing is asserted about time; only that each thing works.
#include <cstdio>

#include <algorithm>

#include "device/cuda/driver.h"
#include "gpu/cuda_subject.h"

namespace spillway {
namespace {

// Memory mapped without the device: one physical allocation behind addresses of its own.
struct Mapping {
  std::size_t size = 0;
  CUmemLocationType where = CU_MEM_LOCATION_TYPE_DEVICE;
  CUdeviceptr address = 0;

  [[nodiscard]] CUresult make() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {.type = where, .id = 0};
    CUmemGenericAllocationHandle memory = 0;
    if (address == 0) SPILLWAY_CU(cuMemAddressReserve, &address, size, 0, 0, 0);
    if (const CUresult result = cuda_driver().cuMemCreate(&memory, size, &properties, 0); result != CUDA_SUCCESS)
      return result;
    SPILLWAY_CU(cuMemMap, address, size, 0, memory, 0);
    SPILLWAY_CU(cuMemRelease, memory);
    CUmemAccessDesc access[2]{};
    access[0].location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    access[1].location = properties.location;
    access[0].flags = access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return cuda_driver().cuMemSetAccess(address, size, access, where == CU_MEM_LOCATION_TYPE_DEVICE ? 1 : 2);
  }
  void undo() {
    SPILLWAY_CU(cuMemUnmap, address, size);
    SPILLWAY_CU(cuMemAddressFree, address, size);
  }
};

class CudaFigures : public OnACard {
 protected:
  // The median of a few runs, in microseconds.
  template <class Run>
  double median_us(int runs, Run run) {
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
      const Nanos begin = device_->now();
      run();
      times.push_back(static_cast<double>((device_->now() - begin).count) / 1e3);
    }
    std::ranges::nth_element(times, times.begin() + runs / 2);
    return times[static_cast<std::size_t>(runs / 2)];
  }

  // The primary context, which the device holds as long as it lives.
  static CUcontext primary_context() {
    CUcontext context = nullptr;
    SPILLWAY_CU(cuDevicePrimaryCtxRetain, &context, 0);
    SPILLWAY_CU(cuDevicePrimaryCtxRelease, 0);
    return context;
  }

  static double gb_per_s(Bytes size, double us) { return static_cast<double>(size.count) / us / 1e3; }
};

TEST_F(CudaFigures, CommitOfDeviceMemory) {
  for (const Bytes granule : {2_MiB, 8_MiB, 16_MiB, 32_MiB}) {
    CudaDevice& device = open({.granule = granule});
    for (const Bytes size : {granule, 1_GiB}) {
      const double on = median_us(1, [&] { commit(Tier::device, {0_B, size}); });
      const double off = median_us(1, [&] { device.decommit(Tier::device, {0_B, size}); });
      std::printf("commit device %5lld MiB in granules of %2lld MiB: %8.1f us, decommit %8.1f us\n",
                  static_cast<long long>(size / 1_MiB), static_cast<long long>(granule / 1_MiB), on, off);
    }
  }
}

// What one physical allocation for the whole range would cost: the price of being able to give back any granule.
TEST_F(CudaFigures, OnePhysicalAllocationForComparison) {
  open();
  const CUcontext context = primary_context();
  const CudaScope scope(context);
  for (const Bytes size : {2_MiB, 32_MiB, 256_MiB, 1_GiB}) {
    Mapping mapping{.size = static_cast<std::size_t>(size.count), .where = CU_MEM_LOCATION_TYPE_DEVICE};
    const double on = median_us(1, [&] { ASSERT_EQ(mapping.make(), CUDA_SUCCESS); });
    const double off = median_us(1, [&] { mapping.undo(); });
    std::printf("one allocation of %5lld MiB: %9.1f us, undone in %9.1f us\n", static_cast<long long>(size / 1_MiB), on, off);
  }
}

// Host memory through the same interface: it would need no registration and no slabs.
TEST_F(CudaFigures, HostMemoryMappedByTheDriverForComparison) {
  open();
  const CUcontext context = primary_context();
  const CudaScope scope(context);
  Mapping mapping{.size = std::size_t{2} << 30, .where = CU_MEM_LOCATION_TYPE_HOST_NUMA};
  CUresult result = CUDA_SUCCESS;
  const double on = median_us(1, [&] { result = mapping.make(); });
  std::printf("2 GiB of host memory mapped by the driver: %s in %.1f ms\n", describe_cuda(result).c_str(), on / 1e3);
  if (result == CUDA_SUCCESS) {
    const double off = median_us(1, [&] { mapping.undo(); });
    std::printf("  undone in %.1f ms\n", off / 1e3);
  }
}

TEST_F(CudaFigures, CommitOfPinnedMemory) {
  for (const Bytes slab : {2_MiB, 64_MiB, 1_GiB}) {
    for (const int threads : {1, 4, 8}) {
      CudaDevice& device = open({.host_slab = slab, .touch_threads = threads});
      const Bytes size = 2_GiB;
      const double on = median_us(1, [&] { commit(Tier::host, {0_B, size}); });
      const double off = median_us(1, [&] { device.decommit(Tier::host, {0_B, size}); });
      std::printf("commit host 2 GiB, slabs of %4lld MiB, %d threads: %8.1f ms, decommit %7.1f ms\n",
                  static_cast<long long>(slab / 1_MiB), threads, on / 1e3, off / 1e3);
    }
  }
}

TEST_F(CudaFigures, RateOfPinnedCopies) {
  for (const Bytes slab : {2_MiB, 64_MiB}) {
    CudaDevice& device = open({.host_slab = slab});
    const StreamId in = device.open_stream(), out = device.open_stream();
    const Bytes size = 512_MiB;
    commit(Tier::device, {0_B, size * 2});
    commit(Tier::host, {0_B, size * 2});
    const auto send = [&] { device.copy(in, {Tier::device, 0_B}, {Tier::host, 0_B}, size); };
    const auto fetch = [&] { device.copy(out, {Tier::host, size}, {Tier::device, size}, size); };
    send();
    finish(in);
    const double to_card = median_us(5, [&] { send(); finish(in); });
    const double to_host = median_us(5, [&] { fetch(); finish(out); });
    const double both = median_us(5, [&] { send(); fetch(); finish(in); finish(out); });
    const double enqueue = median_us(5, send);
    finish(in);
    std::printf("copies of 512 MiB, slabs of %2lld MiB: to card %.1f GB/s, to host %.1f, both ways %.1f together; "
                "enqueued in %.0f us\n",
                static_cast<long long>(slab / 1_MiB), gb_per_s(size, to_card), gb_per_s(size, to_host),
                gb_per_s(size * 2, both), enqueue);
  }
}

TEST_F(CudaFigures, CostOfTicks) {
  CudaDevice& device = open();
  constexpr int kTimes = 100'000;
  const StreamId own = device.open_stream(), other = device.open_stream(), adopted = device.adopt_stream(nullptr);
  const auto each = [&](auto act) { return median_us(1, [&] { for (int i = 0; i < kTimes; ++i) act(); }) * 1e3 / kTimes; };
  Tick tick;
  for (const auto& [name, stream] : {std::pair("own (timed)", own), std::pair("adopted", adopted)}) {
    const double recorded = each([&] { tick = device.record(stream); });
    device.synchronize(tick);
    const double asked = each([&] { EXPECT_TRUE(device.query(tick)); });
    const double waited = each([&] { device.wait(other, device.record(stream)); });
    std::printf("ticks of a stream, %-11s: record %.0f ns, query of a done one %.0f ns, record + wait %.0f ns\n", name,
                recorded, asked, waited);
    finish(other);
  }
}

TEST_F(CudaFigures, RateOfTheFileTier) {
  CudaDevice& device = open({.file = SpillFileOptions{.folder = "/var/tmp"}});
  device.reserve(Tier::file, 2_GiB);
  const StreamId stream = device.open_stream();
  const Bytes size = 512_MiB;
  commit(Tier::file, {0_B, size});
  commit(Tier::device, {0_B, size});
  const double out = median_us(1, [&] { device.copy(stream, {Tier::file, 0_B}, {Tier::device, 0_B}, size); finish(stream); });
  const double in = median_us(1, [&] { device.copy(stream, {Tier::device, 0_B}, {Tier::file, 0_B}, size); finish(stream); });
  std::printf("file tier, 512 MiB: out %.2f GB/s, in %.2f GB/s\n", gb_per_s(size, out), gb_per_s(size, in));
}

}  // namespace
}  // namespace spillway
