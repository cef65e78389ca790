// A simulated card that finds races, with one kind of wait left out: what the engine asks of it, it does not do.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

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
    const std::vector<Tick> put_off = std::exchange(put_off_[on.index], {});
    if (!only_ || !only_(to, size)) {
      for (const Tick tick : put_off) device_.wait(on, tick);
    }
    device_.copy(on, to, from, size);
  }
  void wait(StreamId waiter, Tick tick) override {
    if (!leak_.leaks || !leaking_ || lane(waiter) != leak_.waiter || lane(tick.stream) != leak_.whom) device_.wait(waiter, tick);
    else if (only_) put_off_[waiter.index].push_back(tick);
  }

  [[nodiscard]] Lane lane(StreamId stream) const { return lanes_[stream.index]; }
  // From now on, where the leak says so.
  void set_leaking(bool on) { leaking_ = on; }
  // Only copies to such a place do not wait; the others do when they are enqueued.
  void set_only(std::function<bool(Place to, Bytes size)> only) { only_ = std::move(only); }

  // "race: stream 1 reads device bytes [0, 8) without an order after stream 0, which writes them", by lanes.
  [[nodiscard]] std::string tell(const std::string& race) const {
    static const std::regex kForm(R"(race: stream (\d+) (\w+) (\w+) bytes .* after stream (\d+), which (\w+) them)");
    std::smatch parts;
    if (!std::regex_match(race, parts, kForm)) return race;
    const auto name = [&](const std::string& stream) {
      constexpr std::array kNames{"kernel", "out", "in"};
      return std::string(kNames[static_cast<std::size_t>(lane(StreamId{static_cast<std::uint32_t>(std::stoi(stream))}))]);
    };
    return name(parts[1]) + " " + parts[2].str() + " what " + name(parts[4]) + " " + parts[5].str() + " on the " + parts[3].str();
  }

 private:
  FakeDevice& device_;
  const Leak leak_;
  bool leaking_ = true;
  std::function<bool(Place to, Bytes size)> only_;
  std::array<std::vector<Tick>, 16> put_off_;
  std::array<Lane, 16> lanes_{};
};

}  // namespace spillway::testing
