// The contract suite on the two devices every machine has. The CUDA device is put under it in tests/gpu.
#include "contract/device_contract.h"

#include <future>

#include "device/fake/fake_device.h"
#include "device/host/host_device.h"

namespace spillway {
namespace {

class HostSubject final : public DeviceSubject {
 public:
  HostSubject(Bytes granule, bool direct) : device_(options(granule, direct)) {}
  ~HostSubject() override { open_gate(); }

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

 private:
  static constexpr Bytes kLimit = 256_MiB;

  static HostOptions options(Bytes granule, bool direct) {
    return {.memory = kLimit,
            .host_memory = kLimit,
            .file_room = kLimit,
            .granule = granule,
            .poison = true,
            .file = SpillFileOptions{.folder = "/var/tmp", .direct = direct}};
  }

  void open_gate() { opened_.set_value(); }

  HostDevice device_;
  std::promise<void> opened_;
  std::shared_future<void> gate_ = opened_.get_future().share();
};

DeviceCase host_case(const std::string& name, Bytes granule, bool direct) {
  return {.name = name, .make = [=] { return std::make_unique<HostSubject>(granule, direct); }};
}

INSTANTIATE_TEST_SUITE_P(Host, DeviceContract,
                         testing::Values(host_case("host", 2_MiB, true), host_case("small_granules", 64_KiB, true),
                                         host_case("cached_file", 64_KiB, false)),
                         case_name);

// Held work is a kernel of an hour; letting it finish moves the virtual clock to its end.
class FakeSubject final : public DeviceSubject {
 public:
  explicit FakeSubject(bool detect_races) : device_(card(), {.detect_races = detect_races}) {}

  Device& device() override { return device_; }
  void hold(StreamId stream) override {
    device_.compute(stream, 3600_s);
    held_.push_back(device_.record(stream));
  }
  void release() override {
    for (Tick tick : held_) device_.synchronize(tick);
    held_.clear();
  }
  [[nodiscard]] Bytes limit(Tier) const override { return kLimit; }

 private:
  static constexpr Bytes kLimit = 256_MiB;

  static Card card() {
    Card small = find_card("v100");
    small.memory = small.host_memory = small.file_room = kLimit;
    return small;
  }

  FakeDevice device_;
  std::vector<Tick> held_;
};

DeviceCase fake_case(const std::string& name, bool detect_races) {
  return {.name = name, .make = [=] { return std::make_unique<FakeSubject>(detect_races); }};
}

// The second case also shows that every hand-off in the suite is ordered.
INSTANTIATE_TEST_SUITE_P(Fake, DeviceContract,
                         testing::Values(fake_case("fake", false), fake_case("watching_races", true)), case_name);

}  // namespace
}  // namespace spillway
