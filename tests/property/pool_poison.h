// Real bytes as witnesses: every block is filled with its owner's mark by the real copy threads, and read back before
// it is freed. If the pool, the arena or a wait is wrong, two owners share bytes at some moment and a read finds the
// other's.
//
//   stream A   ..delay..  fill(17)  ..delay..  read back, compare with 17 | free, tick A@9
//   stream B                                       the same bytes, granted at once: waits A@9, fill(204) ...
//
// The delays keep the device far behind the host, so that almost every block is granted while its last owner still has
// work enqueued on it. Comparisons run on the copy threads, in stream order. Findings are values.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "arena/arena.h"
#include "device/host/host_device.h"
#include "pool_dice.h"

namespace spillway::shadow {

struct PoisonOptions {
  std::uint64_t seed = 1;
  std::int64_t ops = 1000;
  std::size_t streams = 4;
  std::size_t live = 15;  // about how many blocks at a time
  Bytes limit = 384_KiB;
  Bytes slab = 0_B;
  bool hand_over = true;               // blocks pass between streams while they live
  bool drops_orderable_waits = false;  // a broken caller; it must not decommit, or a late copy would fault
};

struct PoisonFindings {
  std::int64_t grants = 0, refusals = 0, reads = 0;
  std::int64_t foreign_reads = 0;  // reads that found another owner's bytes
  PoolStats stats;
};

// A device that can be told not to hear: `wait` does nothing while `deaf`.
class DeafDevice final : public Device {
 public:
  explicit DeafDevice(Device& inner) : inner_(inner) {}
  std::atomic<bool> deaf = false;

  [[nodiscard]] const DeviceFacts& facts() const override { return inner_.facts(); }
  void reserve(Tier tier, Bytes size) override { inner_.reserve(tier, size); }
  [[nodiscard]] bool try_commit(Tier tier, Range range) override { return inner_.try_commit(tier, range); }
  void decommit(Tier tier, Range range) override { inner_.decommit(tier, range); }
  [[nodiscard]] Bytes committed(Tier tier) const override { return inner_.committed(tier); }
  [[nodiscard]] std::byte* address(Tier tier, Bytes offset) const override { return inner_.address(tier, offset); }
  [[nodiscard]] StreamId open_stream() override { return inner_.open_stream(); }
  void copy(StreamId on, Place to, Place from, Bytes size) override { inner_.copy(on, to, from, size); }
  void fill(StreamId on, Bytes offset, Bytes size, std::byte value) override { inner_.fill(on, offset, size, value); }
  [[nodiscard]] Tick record(StreamId on) override { return inner_.record(on); }
  void wait(StreamId waiter, Tick tick) override {
    if (!deaf) inner_.wait(waiter, tick);
  }
  [[nodiscard]] bool query(Tick tick) override { return inner_.query(tick); }
  void synchronize(Tick tick) override { inner_.synchronize(tick); }
  [[nodiscard]] Nanos elapsed(Tick from, Tick to) override { return inner_.elapsed(from, to); }
  [[nodiscard]] Nanos now() const override { return inner_.now(); }

 private:
  Device& inner_;
};

// The device, the arena on it, and the marks: page m of the host tier is filled with mark m, then one page per stream
// to read back into.
class PoisonBench {
 public:
  static constexpr Bytes kPage = 64_KiB;  // the largest block
  static constexpr std::uint64_t kMarks = 61;

  explicit PoisonBench(const PoisonOptions& options)
      : host({.granule = 64_KiB, .poison = true}), ears(host), arena(ears, Tier::device, pool_options(options)) {
    for (std::size_t i = 0; i < options.streams; ++i) streams.push_back(host.open_stream());
    const Bytes size = kPage * static_cast<std::int64_t>(kMarks + options.streams + 1);
    host.reserve(Tier::host, size);
    if (!host.try_commit(Tier::host, {0_B, size})) throw DeviceError("no host memory for the marks");
    for (std::uint64_t mark = 0; mark < kMarks; ++mark) {
      std::byte* const page = host.address(Tier::host, mark_page(mark));
      for (std::int64_t at = 0; at < kPage.count; at += 8) std::memcpy(page + at, &kWords[mark], 8);
    }
  }
  // Nothing may be running when the members go.
  ~PoisonBench() {
    for (const StreamId stream : streams) host.synchronize(host.record(stream));
  }

  void fill(StreamId on, Range range, std::uint64_t mark) {
    host.copy(on, {Tier::device, range.begin}, {Tier::host, mark_page(mark)}, range.length());
  }

  // Counts a foreign read when any word of the range is not the mark by the time the stream gets there.
  void read_back(StreamId on, Range range, std::uint64_t mark) {
    const Bytes page = kPage * static_cast<std::int64_t>(kMarks + on.index);
    host.copy(on, {Tier::host, page}, {Tier::device, range.begin}, range.length());
    const std::byte* const bytes = host.address(Tier::host, page);
    const std::byte* const expected = host.address(Tier::host, mark_page(mark));
    const auto length = static_cast<std::size_t>(range.length().count);
    host.call(on, [this, bytes, expected, length] {
      if (std::memcmp(bytes, expected, length) != 0) ++foreign_reads;
    });
  }

  void delay(StreamId on, std::int64_t microseconds) {
    host.call(on, [microseconds] { std::this_thread::sleep_for(std::chrono::microseconds(microseconds)); });
  }

  HostDevice host;
  DeafDevice ears;
  Arena arena;
  std::vector<StreamId> streams;
  std::atomic<std::int64_t> foreign_reads = 0;

 private:
  static PoolOptions pool_options(const PoisonOptions& options) {
    const std::int64_t room_to_remap = options.drops_orderable_waits ? 1 : 4;
    return {.address_space = options.limit * room_to_remap,
            .limit = options.limit,
            .granule = 64_KiB,
            .slab = options.slab};
  }
  static Bytes mark_page(std::uint64_t mark) { return kPage * static_cast<std::int64_t>(mark); }
  static inline const std::vector<std::uint64_t> kWords = [] {
    std::vector<std::uint64_t> words;
    for (std::uint64_t mark = 0; mark < kMarks; ++mark) words.push_back(Dice(mark).next());
    return words;
  }();
};

// One host thread that allocates, fills, hands over, reads back and frees.
class PoisonDriver {
 public:
  PoisonDriver(PoisonBench& bench, const PoisonOptions& options, std::vector<StreamId> streams)
      : bench_(bench), options_(options), streams_(std::move(streams)), dice_(options.seed) {}

  PoisonFindings run() {
    for (std::int64_t op = 0; op < options_.ops; ++op) {
      if (dice_.below(2 * options_.live) >= live_.size()) {
        allocate();
      } else if (options_.hand_over && dice_.percent(25)) {
        hand_over(live_[dice_.below(live_.size())]);
      } else {
        free_at(dice_.below(live_.size()));
      }
      if (dice_.percent(1) && !options_.drops_orderable_waits) bench_.arena.trim();
      throttle();
    }
    while (!live_.empty()) free_at(live_.size() - 1);
    return findings_;
  }

 private:
  struct Live {
    Block block;
    StreamId on;
    std::uint64_t mark = 0;
    std::vector<Tick> uses;
  };

  StreamId any_stream() { return streams_[dice_.below(streams_.size())]; }

  void allocate() {
    const Bytes size{dice_.between(1, PoisonBench::kPage.count >> dice_.below(8))};
    const StreamId on = any_stream();
    bench_.ears.deaf = options_.drops_orderable_waits;
    const std::optional<Block> block = bench_.arena.try_allocate(size, on);
    bench_.ears.deaf = false;
    if (!block) {
      ++findings_.refusals;
      if (!live_.empty()) free_at(dice_.below(live_.size()));
      return;
    }
    ++findings_.grants;
    live_.push_back({*block, on, dice_.below(PoisonBench::kMarks), {}});
    maybe_delay(on);
    bench_.fill(on, block->range, live_.back().mark);
  }

  // The next stream reads what the last one wrote, then writes its own.
  void hand_over(Live& live) {
    const StreamId next = any_stream();
    if (next == live.on) return;
    const Tick filled = bench_.host.record(live.on);
    live.uses.push_back(filled);
    bench_.arena.wait(next, filled);
    live.on = next;
    read(live);
    live.mark = dice_.below(PoisonBench::kMarks);
    bench_.fill(next, live.block.range, live.mark);
  }

  void free_at(std::size_t at) {
    Live live = std::exchange(live_[at], live_.back());
    live_.pop_back();
    maybe_delay(live.on);
    read(live);
    const Tick last = bench_.host.record(live.on);
    std::erase_if(live.uses, [&](Tick use) { return use.stream == last.stream; });
    std::vector<Tick> uses{last};
    for (const Tick use : live.uses) {
      std::erase_if(uses, [&](Tick older) { return older.stream == use.stream; });
      uses.push_back(use);
    }
    bench_.arena.free(live.block, uses);
    recent_.push_back(last);
  }

  void read(const Live& live) {
    bench_.read_back(live.on, live.block.range, live.mark);
    ++findings_.reads;
  }

  void maybe_delay(StreamId on) {
    if (dice_.percent(20)) bench_.delay(on, dice_.between(1, 60));
  }

  // The host runs ahead, not away.
  void throttle() {
    if (recent_.size() < 64) return;
    bench_.host.synchronize(recent_.front());
    recent_.pop_front();
  }

  PoisonBench& bench_;
  PoisonOptions options_;
  std::vector<StreamId> streams_;
  Dice dice_;
  std::vector<Live> live_;
  std::deque<Tick> recent_;
  PoisonFindings findings_;
};

// One bench, one driver thread over all its streams.
inline PoisonFindings run_poison(const PoisonOptions& options) {
  PoisonBench bench(options);
  PoisonFindings findings = PoisonDriver(bench, options, bench.streams).run();
  for (const StreamId stream : bench.streams) bench.host.synchronize(bench.host.record(stream));
  findings.foreign_reads = bench.foreign_reads;
  findings.stats = bench.arena.stats();
  bench.arena.verify();
  return findings;
}

}  // namespace spillway::shadow
