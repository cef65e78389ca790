// What the tests on a card share: a device with its tiers reserved, and the skip where there is no card.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/cuda/cuda_device.h"

namespace spillway {

class OnACard : public testing::Test {
 protected:
  static constexpr Bytes kGranule = 2_MiB;

  void SetUp() override {
    if (const std::string problem = CudaDevice::why_unavailable(); !problem.empty()) GTEST_SKIP() << problem;
  }

  CudaDevice& open(CudaOptions options = {}, Bytes arena = 4_GiB) {
    device_.emplace(std::move(options));
    device_->reserve(Tier::device, arena);
    device_->reserve(Tier::host, arena);
    return *device_;
  }

  void commit(Tier tier, Range range) { ASSERT_TRUE(device_->try_commit(tier, range)); }
  void finish(StreamId stream) { device_->synchronize(device_->record(stream)); }

  // The host tier's bytes at an offset, all of one value.
  void fill(Bytes offset, Bytes size, int value) {
    std::memset(device_->address(Tier::host, offset), value, static_cast<std::size_t>(size.count));
  }
  [[nodiscard]] bool holds(Bytes offset, Bytes size, int value) const {
    const std::vector<char> wanted(static_cast<std::size_t>(size.count), static_cast<char>(value));
    return std::memcmp(device_->address(Tier::host, offset), wanted.data(), wanted.size()) == 0;
  }

  std::optional<CudaDevice> device_;
};

}  // namespace spillway
