// A simulated card that finds races, with one kind of wait left out: what the engine asks of it, it does not do.
#pragma once

#include <array>
#include <cstdint>

#include "device/fake/fake_device.h"

namespace spillway::testing {

// Which of the engine's streams: the one kernels run on, or the copies' own, each way.
enum class Lane : std::uint8_t { compute, out, in };

// `waiter` does not wait for `whom`.
struct Leak {
  Lane waiter = Lane::compute, whom = Lane::compute;
  bool leaks = true;
};

class LeakyDevice final : public Device {
 public:
  LeakyDevice(FakeDevice& device, Leak leak) : device_(device), leak_(leak) {}

  [[nodiscard]] const DeviceFacts& facts() const override { return device_.facts(); }
  void reserve(Tier tier, Bytes size) override { device_.reserve(tier, size); }
  [[nodiscard]] bool try_commit(Tier tier, Range range) override { return device_.try_commit(tier, range); }
  void decommit(Tier tier, Range range) override { device_.decommit(tier, range); }
  [[nodiscard]] Bytes committed(Tier tier) const override { return device_.committed(tier); }
  [[nodiscard]] std::byte* address(Tier tier, Bytes offset) const override { return device_.address(tier, offset); }
  [[nodiscard]] StreamId open_stream() override { return device_.open_stream(); }
  void fill(StreamId on, Bytes offset, Bytes size, std::byte value) override { device_.fill(on, offset, size, value); }
  [[nodiscard]] Tick record(StreamId on) override { return device_.record(on); }
  [[nodiscard]] bool query(Tick tick) override { return device_.query(tick); }
  void synchronize(Tick tick) override { device_.synchronize(tick); }
  [[nodiscard]] Nanos elapsed(Tick from, Tick to) override { return device_.elapsed(from, to); }
  [[nodiscard]] Nanos now() const override { return device_.now(); }

  // A stream is known by what it copies.
  void copy(StreamId on, Place to, Place from, Bytes size) override {
    lanes_[on.index] = to.tier == Tier::device ? Lane::in : Lane::out;
    device_.copy(on, to, from, size);
  }
  void wait(StreamId waiter, Tick tick) override {
    if (leak_.leaks && lane(waiter) == leak_.waiter && lane(tick.stream) == leak_.whom) return;
    device_.wait(waiter, tick);
  }

  [[nodiscard]] Lane lane(StreamId stream) const { return lanes_[stream.index]; }

 private:
  FakeDevice& device_;
  const Leak leak_;
  std::array<Lane, 16> lanes_{};
};

}  // namespace spillway::testing
