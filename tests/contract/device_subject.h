// A device under the contract suite: a fresh one for each test, and the few things its interface cannot say.
//
// DeviceContract is the fixture of the suite in device_contract.h, which tells how to put another device under it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "device/device.h"

namespace spillway {

class DeviceSubject {
 public:
  virtual ~DeviceSubject() = default;

  virtual Device& device() = 0;

  // Enqueues work on the stream that cannot finish before release(). May be called for several streams.
  virtual void hold(StreamId stream) = 0;
  // Lets everything that is held finish; harmless when nothing is.
  virtual void release() = 0;

  [[nodiscard]] virtual bool offers(Tier) const { return true; }
  // More than this can never be committed in the tier. Zero: not known, and refusal is not tested.
  [[nodiscard]] virtual Bytes limit(Tier) const { return {}; }
  // How far `elapsed` may be off by the resolution of the device's clock.
  [[nodiscard]] virtual Nanos clock_error() const { return {}; }
};

struct DeviceCase {
  std::string name;
  std::function<std::unique_ptr<DeviceSubject>()> make;
  std::string why_not = "device not available here";
};

inline std::string case_name(const testing::TestParamInfo<DeviceCase>& info) { return info.param.name; }

inline void PrintTo(const DeviceCase& device_case, std::ostream* out) { *out << device_case.name; }

inline constexpr std::array kTiers{Tier::device, Tier::host, Tier::file};

inline std::string tier_name(Tier tier) {
  return std::array<std::string, 3>{"device", "host", "file"}.at(static_cast<std::size_t>(tier));
}

// Every tier is reserved with kArena granules. The last granule of the host tier is the window through which tests
// write and read the others; it is committed by the first put() or get().
class DeviceContract : public testing::TestWithParam<DeviceCase> {
 protected:
  static constexpr std::int64_t kArena = 64;

  void SetUp() override {
    subject_ = GetParam().make();
    if (!subject_) GTEST_SKIP() << GetParam().why_not;
    for (Tier tier : tiers()) device().reserve(tier, granules(kArena));
  }

  void TearDown() override {
    if (subject_) subject_->release();
  }

  Device& device() { return subject_->device(); }
  [[nodiscard]] Bytes granule() { return device().facts().granule; }
  [[nodiscard]] Bytes granules(std::int64_t count) { return granule() * count; }
  [[nodiscard]] Range slot(std::int64_t first, std::int64_t count = 1) {
    return {granules(first), granules(first + count)};
  }

  [[nodiscard]] std::vector<Tier> tiers() {
    std::vector<Tier> offered;
    for (Tier tier : kTiers)
      if (subject_->offers(tier)) offered.push_back(tier);
    return offered;
  }

  void commit(Tier tier, Range range) { ASSERT_TRUE(device().try_commit(tier, range)) << tier_name(tier); }

  void finish(StreamId stream) { device().synchronize(device().record(stream)); }

  // Fills `size` bytes at the place with a pattern made from the seed, and waits for it.
  void put(Place to, Bytes size, std::uint32_t seed) {
    open_window();
    if (std::byte* at = device().address(Tier::host, window().begin)) fill(at, size, seed);
    device().copy(*window_stream_, to, {Tier::host, window().begin}, size);
    finish(*window_stream_);
  }

  void expect_holds(Place from, Bytes size, std::uint32_t seed, const std::string& what) {
    open_window();
    device().copy(*window_stream_, {Tier::host, window().begin}, from, size);
    finish(*window_stream_);
    if (!device().facts().holds_bytes) return;
    const std::vector<std::byte> wanted = pattern(size, seed);
    const std::byte* found = device().address(Tier::host, window().begin);
    EXPECT_EQ(std::memcmp(found, wanted.data(), wanted.size()), 0) << what;
  }

  static void fill(std::byte* at, Bytes size, std::uint32_t seed) {
    std::uint32_t state = seed * 2654435761U + 1;
    for (std::int64_t i = 0; i < size.count; ++i) {
      state = state * 1664525U + 1013904223U;
      at[i] = static_cast<std::byte>(state >> 24);
    }
  }

  static std::vector<std::byte> pattern(Bytes size, std::uint32_t seed) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(size.count));
    fill(bytes.data(), size, seed);
    return bytes;
  }

  std::unique_ptr<DeviceSubject> subject_;

 private:
  Range window() { return slot(kArena - 1); }

  void open_window() {
    if (window_stream_) return;
    commit(Tier::host, window());
    window_stream_ = device().open_stream();
  }

  std::optional<StreamId> window_stream_;
};

}  // namespace spillway
