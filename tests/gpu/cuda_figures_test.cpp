// What the card's primitives cost here, printed. Nothing is asserted about time; only that each thing works.
#include <cstdio>

#include <algorithm>

#include "gpu/cuda_subject.h"

namespace spillway {
namespace {

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

  static double gb_per_s(Bytes size, double us) { return static_cast<double>(size.count) / us / 1e3; }
};

TEST_F(CudaFigures, CommitOfDeviceMemory) {
  CudaDevice& device = open();
  for (const Bytes size : {2_MiB, 32_MiB, 256_MiB, 1_GiB}) {
    const double on = median_us(1, [&] { commit(Tier::device, {0_B, size}); });
    const double off = median_us(1, [&] { device.decommit(Tier::device, {0_B, size}); });
    std::printf("commit device %5lld MiB: %9.1f us (%6.1f us/granule), decommit %9.1f us\n",
                static_cast<long long>(size / 1_MiB), on, on / static_cast<double>(size / kGranule), off);
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
