// The contract suite on a real card.
#include "contract/device_contract.h"

#include <future>

#include "device/cuda/cuda_device.h"

namespace spillway {
namespace {

class CudaSubject final : public DeviceSubject {
 public:
  CudaSubject(Bytes granule, Bytes host_slab) : device_(options(granule, host_slab)) {}
  ~CudaSubject() override { open_gate(); }

  Device& device() override { return device_; }
  void hold(StreamId stream) override {
    device_.call(stream, [gate = gate_] { gate.wait(); });
  }
  void release() override {
    open_gate();
    opened_ = std::promise<void>();
    gate_ = opened_.get_future().share();
  }
  [[nodiscard]] Bytes limit(Tier) const override { return kLimit; }
  // Half a microsecond is what the driver promises for one event; streams are timed by different engines of the card.
  [[nodiscard]] Nanos clock_error() const override { return 2_us; }

 private:
  static constexpr Bytes kLimit = 256_MiB;

  static CudaOptions options(Bytes granule, Bytes host_slab) {
    return {.memory = kLimit,
            .host_memory = kLimit,
            .file_room = kLimit,
            .file = SpillFileOptions{.folder = "/var/tmp"},
            .granule = granule,
            .host_slab = host_slab};
  }

  void open_gate() { opened_.set_value(); }

  CudaDevice device_;
  std::promise<void> opened_;
  std::shared_future<void> gate_ = opened_.get_future().share();
};

DeviceCase cuda_case(const std::string& name, Bytes granule, Bytes host_slab) {
  const std::string problem = CudaDevice::why_unavailable();
  const auto make = [=] { return problem.empty() ? std::make_unique<CudaSubject>(granule, host_slab) : nullptr; };
  return {.name = name, .make = make, .why_not = problem};
}

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceContract,
                         testing::Values(cuda_case("slabs_of_64_mib", 2_MiB, 64_MiB),
                                         cuda_case("slabs_of_a_granule", 2_MiB, 2_MiB),
                                         cuda_case("granules_of_4_mib", 4_MiB, 64_MiB)),
                         case_name);

}  // namespace
}  // namespace spillway
