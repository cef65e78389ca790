// What the pool costs: nanoseconds per allocate + free pair, and bytes above peak live on the recorded steps.
//
//   bench_pool [trace.json.gz...]     without arguments: the steps in traces/
//
// Pairs: n chunks live, sizes log-uniform; one random chunk is freed, one is allocated, over and over, so that the pool
// splits and merges all the time. "large" sizes bypass the slabs, "mixed" ones are like a training step's, from a
// scalar to an activation; "again": one large chunk is allocated and freed at once, like the workspace of an op. With
// several streams every chunk is used by one of them, chosen at random, streams wait for each other now and then, and
// what is done becomes known a while later. The median of several rounds is printed.
//
// Steps: the births and deaths of a recorded step, in order. Beside the pool stands the plain online best fit of
// BestFit below, which knows neither streams nor granules nor slabs: smallest hole, lowest address, 512-byte units, an
// arena that grows by just what is missing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "pool/pool.h"
#include "trace/recorded_step.h"

namespace spillway {
namespace {

using Random = std::mt19937_64;

Bytes log_uniform(Random& random, Bytes least, Bytes most) {
  const double low = std::log2(static_cast<double>(least.count)), high = std::log2(static_cast<double>(most.count));
  const double exponent = std::uniform_real_distribution(low, high)(random);
  return {static_cast<std::int64_t>(std::exp2(exponent))};
}

// Allocations and frees that keep a number of chunks live.
class Churn {
 public:
  struct Shape {
    std::size_t live = 0;
    std::uint32_t streams = 1;
    Bytes least, most;
  };

  explicit Churn(const Shape& shape)
      : shape_(shape), pool_({.address_space = 64'000_GiB, .limit = 32'000_GiB}), ticks_(shape.streams) {
    for (std::size_t i = 0; i < kSizes; ++i) sizes_.push_back(log_uniform(random_, shape.least, shape.most));
    for (std::size_t i = 0; i < kSizes; ++i) turns_.push_back({random_() % shape.live, random_() % shape.streams});
    while (live_.size() < shape.live) live_.push_back(allocate());
    run(shape.live * 4);
  }

  void run(std::size_t pairs) {
    for (; pairs > 0; --pairs) {
      if (shape_.streams > 1 && turn_ % 16 == 0) tell_order();
      Held& held = live_[turns_[turn_ % kSizes].victim];
      pool_.free(held.chunk, Tick{held.stream, ++ticks_[held.stream.index]});
      held = allocate();
    }
  }

  void run_again(std::size_t pairs) {
    for (; pairs > 0; --pairs) {
      const Held held = allocate();
      pool_.free(held.chunk, Tick{held.stream, ++ticks_[held.stream.index]});
    }
  }

  [[nodiscard]] PoolStats stats() const { return pool_.stats(); }

 private:
  static constexpr std::size_t kSizes = 1 << 16;
  struct Held {
    ChunkId chunk;
    StreamId stream;
  };
  struct Turn {
    std::size_t victim, stream;
  };

  Held allocate() {
    const StreamId on{static_cast<std::uint32_t>(turns_[turn_ % kSizes].stream)};
    const auto grant = pool_.try_allocate(sizes_[turn_ % kSizes], on);
    ++turn_;
    owed_.assign(grant->waits.begin(), grant->waits.end());
    for (const Tick tick : owed_) pool_.note_wait(on, tick, ticks_[on.index]);
    return {grant->chunk, on};
  }

  // Every 16 pairs a stream waits for another, and one is known to be done up to 256 ticks ago.
  void tell_order() {
    const auto turn = static_cast<std::uint32_t>(turn_);
    const std::uint32_t waiter = turn / 16 % shape_.streams, other = (turn / 32 + 1) % shape_.streams;
    pool_.note_wait({waiter}, {{other}, ticks_[other]}, ticks_[waiter]);
    if (ticks_[waiter] > 256) pool_.note_done({{waiter}, ticks_[waiter] - 256});
  }

  Shape shape_;
  Random random_{1};
  Pool pool_;
  std::vector<std::uint64_t> ticks_;
  std::vector<Bytes> sizes_;
  std::vector<Turn> turns_;
  std::vector<Held> live_;
  std::vector<Tick> owed_;
  std::size_t turn_ = 0;
};

// Time of this thread on the processor: other work on the machine does not count.
double thread_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Rounds are short, so that most of them are not interrupted.
double median_nanoseconds_per_pair(const Churn::Shape& shape, void (Churn::*run)(std::size_t)) {
  constexpr std::size_t kPairs = 2'000, kRounds = 501;
  Churn churn(shape);
  std::vector<double> rounds;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const double begin = thread_nanoseconds();
    (churn.*run)(kPairs);
    rounds.push_back((thread_nanoseconds() - begin) / static_cast<double>(kPairs));
  }
  std::ranges::nth_element(rounds, rounds.begin() + kRounds / 2);
  return rounds[kRounds / 2];
}

void print_pairs() {
  fmt::print("nanoseconds per allocate + free pair\n{:>10}{:>34}{:>34}\n{:>10}", "", "1 stream", "4 streams", "live");
  for (int streams = 0; streams < 2; ++streams) fmt::print("{:>14}{:>10}{:>10}", "mixed", "large", "again");
  for (const std::size_t live : {100, 1'000, 10'000, 100'000}) {
    fmt::print("\n{:>10}", live);
    for (const std::uint32_t streams : {1U, 4U}) {
      const Churn::Shape mixed{live, streams, 512_B, 64_MiB}, large{live, streams, 64_KiB, 64_MiB};
      fmt::print("{:>14.0f}{:>10.0f}{:>10.0f}", median_nanoseconds_per_pair(mixed, &Churn::run),
                 median_nanoseconds_per_pair(large, &Churn::run),
                 median_nanoseconds_per_pair(large, &Churn::run_again));
    }
  }
  fmt::print("\n");
}

// The plain online best fit to compare with.
class BestFit {
 public:
  Bytes allocate(Bytes size) {
    const auto fit = by_size_.lower_bound({size, Bytes{}});
    Range hole{end_, end_};
    if (fit != by_size_.end()) {
      hole = take({fit->second, fit->second + fit->first});
    } else if (!holes_.empty() && holes_.rbegin()->second == end_) {
      hole = take({holes_.rbegin()->first, end_});
    }
    end_ = std::max(end_, hole.begin + size);
    if (hole.begin + size < hole.end) put({hole.begin + size, hole.end});
    return hole.begin;
  }

  void free(Range range) {
    const auto above = holes_.lower_bound(range.begin);
    if (above != holes_.end() && above->first == range.end) range.end = take({above->first, above->second}).end;
    const auto next = holes_.lower_bound(range.begin);
    if (next != holes_.begin() && std::prev(next)->second == range.begin) {
      range.begin = take({std::prev(next)->first, range.begin}).begin;
    }
    put(range);
  }

  [[nodiscard]] Bytes end() const { return end_; }

 private:
  Range take(Range hole) {
    holes_.erase(hole.begin);
    by_size_.erase({hole.length(), hole.begin});
    return hole;
  }
  void put(Range hole) {
    holes_[hole.begin] = hole.end;
    by_size_.insert({hole.length(), hole.begin});
  }

  std::map<Bytes, Bytes> holes_;               // begin -> end
  std::set<std::pair<Bytes, Bytes>> by_size_;  // size, begin
  Bytes end_;
};

struct Replay {
  Bytes peak_live, best_fit, reserved;
  PoolStats pool;
};

// What both allocators make of a sequence of storages, sizes in units of 512 bytes.
class Replayer {
 public:
  void operator()(const StorageBirth& birth) {
    if (birth.size == Bytes{}) return;
    const Bytes size = round_up(birth.size, 512_B);
    live_ += size;
    result_.peak_live = std::max(result_.peak_live, live_);
    const Bytes begin = best_fit_.allocate(size);
    const auto grant = pool_.try_allocate(birth.size, kStream);
    held_[birth.storage.index] = {.chunk = grant->chunk, .plain = {begin, begin + size}};
  }
  void operator()(const StorageDeath& death) {
    const auto held = held_.find(death.storage.index);
    if (held == held_.end()) return;
    live_ -= held->second.plain.length();
    best_fit_.free(held->second.plain);
    pool_.free(held->second.chunk, Tick{kStream, ++tick_});
    held_.erase(held);
  }
  void operator()(const auto&) {}

  [[nodiscard]] Replay result() {
    pool_.verify();
    result_.pool = pool_.stats();
    result_.best_fit = best_fit_.end();
    return result_;
  }

 private:
  static constexpr StreamId kStream{0};
  struct Held {
    ChunkId chunk;
    Range plain;
  };

  Pool pool_{{.address_space = 1'024_GiB, .limit = 141_GiB}};
  BestFit best_fit_;
  std::unordered_map<std::uint32_t, Held> held_;
  std::uint64_t tick_ = 0;
  Bytes live_;
  Replay result_;
};

double percent_above(Bytes bytes, Bytes of) {
  return 100.0 * static_cast<double>((bytes - of).count) / static_cast<double>(of.count);
}

void print_steps(const std::vector<std::string>& paths) {
  fmt::print("\nrecorded steps, MiB\n{:<24}{:>10}{:>18}{:>20}{:>12}{:>8}\n", "", "peak live", "plain best fit",
             "reserved by pool", "free in it", "frag.");
  for (const std::string& path : paths) {
    Replayer replayer;
    for (const Event& event : import_recorded_step(path).events) std::visit(replayer, event);
    const Replay replay = replayer.result();
    const auto mib = [](Bytes bytes) { return static_cast<double>(bytes.count) / (1 << 20); };
    const Bytes reserved = replay.pool.peak_reserved;
    std::string name = std::filesystem::path(path).filename().string();
    name.resize(name.find('.'));
    fmt::print("{:<24}{:>10.1f}{:>10.1f} {:>5.2f} %{:>12.1f} {:>5.2f} %{:>12.1f}{:>7.3f}\n", name,
               mib(replay.peak_live), mib(replay.best_fit), percent_above(replay.best_fit, replay.peak_live),
               mib(reserved), percent_above(reserved, replay.peak_live), mib(replay.pool.reserved - replay.pool.live),
               replay.pool.fragmentation());
  }
}

std::vector<std::string> recorded_steps() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(SPILLWAY_SOURCE_DIR "/traces")) {
    if (entry.path().extension() == ".gz") paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  spillway::print_pairs();
  spillway::print_steps(given.empty() ? spillway::recorded_steps() : given);
}
