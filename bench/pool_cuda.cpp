// Is our pool ever slower than PyTorch's native caching allocator or cudaMallocAsync, and how much does each reserve?
//
// Replays allocation sequences (bench/record_allocations.py) on a card through each of them, with no kernels in between:
// what is timed is the host's price of an allocate + free pair. What lives through the whole sequence is allocated once;
// the rest is one round, repeated. The first round is cold (memory is taken from the driver), the others are steady.
//
//   pool_cuda [--rounds N] [--only ours,coarse,events,native,async] sequence...
//
// "ours" names the stream's next tick at a free and records it only when some stream must wait for it: frees that stay
// on their stream cost no driver call. "events" records an event at every free. "coarse" is "ours" with 16 MiB granules.
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/cuda/cuda_device.h"
#include "pool/pool.h"

namespace spillway {
namespace {

struct Event {
  bool allocates = false;
  std::uint32_t id = 0;
  Bytes size;
  std::uint32_t stream = 0;
};

struct Sequence {
  std::string name;
  std::vector<Event> kept;   // allocated once, before the first round
  std::vector<Event> round;  // every allocation in it is freed in it
  std::uint32_t ids = 0, streams = 0;
  Bytes peak_live;  // at 512 bytes, which every allocator here rounds to at least
};

std::vector<Event> read_events(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError("cannot read " + path);
  std::vector<Event> events;
  for (char kind = 0; file >> kind;) {
    Event event{.allocates = kind == 'a'};
    file >> event.id;
    if (event.allocates) file >> event.size.count >> event.stream;
    if (!file || (kind != 'a' && kind != 'f')) throw InputError(path + ": event " + std::to_string(events.size()));
    events.push_back(event);
  }
  return events;
}

Bytes find_peak(const std::vector<Event>& events, std::uint32_t ids) {
  std::vector<Bytes> sizes(ids);
  Bytes live, peak;
  for (const Event& event : events) {
    if (event.allocates) sizes[event.id] = round_up(event.size, 512_B);
    live += event.allocates ? sizes[event.id] : -sizes[event.id];
    peak = std::max(peak, live);
  }
  return peak;
}

Sequence read_sequence(const std::string& path) {
  const std::vector<Event> events = read_events(path);
  Sequence sequence{.name = std::filesystem::path(path).stem()};
  for (const Event& event : events) {
    sequence.ids = std::max(sequence.ids, event.id + 1);
    sequence.streams = std::max(sequence.streams, event.stream + 1);
  }
  sequence.peak_live = find_peak(events, sequence.ids);
  std::vector<bool> freed(sequence.ids, false);
  for (const Event& event : events) freed[event.id] = freed[event.id] || !event.allocates;
  bool before = true;  // until the first free, what is never freed was there before the step
  std::vector<Event> leftover;
  for (const Event& event : events) {
    before = before && event.allocates;
    const bool stays = !freed[event.id];
    (before && stays ? sequence.kept : sequence.round).push_back(event);
    if (!before && stays) leftover.push_back({.allocates = false, .id = event.id});
  }
  sequence.round.insert(sequence.round.end(), leftover.begin(), leftover.end());
  return sequence;
}

// ------------------------------------------------------------------------------------------------------ the allocators

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual void allocate(std::uint32_t id, Bytes size, std::uint32_t stream) = 0;
  virtual void free(std::uint32_t id) = 0;
  [[nodiscard]] virtual Bytes peak_reserved() = 0;
};

class Ours final : public Allocator {
 public:
  Ours(const Sequence& sequence, Bytes granule, bool event_per_free)
      : device_({.granule = granule}),
        pool_({.address_space = kSpace, .limit = device_.facts().memory, .granule = granule}),
        chunks_(sequence.ids),
        event_per_free_(event_per_free) {
    device_.reserve(Tier::device, kSpace);
    for (std::uint32_t i = 0; i < sequence.streams; ++i) {
      cudaStream_t stream = nullptr;
      if (i > 0) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      streams_.push_back({.id = device_.adopt_stream(stream)});
    }
  }

  void allocate(std::uint32_t id, Bytes size, std::uint32_t stream) override {
    Stream& on = streams_[stream];
    const std::optional<Grant> grant = pool_.try_allocate(size, on.id);
    SPILLWAY_ENSURE(grant.has_value(), "the sequence fits the card");
    if (!grant->commit.empty())
      SPILLWAY_ENSURE(device_.try_commit(Tier::device, grant->commit), "the sequence fits the card");
    chunks_[id] = {grant->chunk, stream};
    if (grant->waits.empty()) return;
    const std::vector<Tick> waits(grant->waits.begin(), grant->waits.end());
    for (const Tick tick : waits) wait(on, tick);
  }

  void free(std::uint32_t id) override {
    Stream& on = streams_[chunks_[id].stream];
    if (event_per_free_) on.recorded = device_.record(on.id).value;
    pool_.free(chunks_[id].chunk, Tick{on.id, event_per_free_ ? on.recorded : on.recorded + 1});
  }

  [[nodiscard]] Bytes peak_reserved() override {
    SPILLWAY_ENSURE(pool_.reserved() == device_.committed(Tier::device), "the books agree with the device");
    return pool_.stats().peak_reserved;
  }

 private:
  static constexpr Bytes kSpace = 256_GiB;

  struct Stream {
    StreamId id;
    std::uint64_t recorded = 0;
  };
  struct Chunk {
    ChunkId chunk;
    std::uint32_t stream = 0;
  };

  void wait(Stream& waiter, Tick tick) {
    for (Stream& other : streams_)
      if (other.id == tick.stream && other.recorded < tick.value) other.recorded = device_.record(other.id).value;
    device_.wait(waiter.id, tick);
    pool_.note_wait(waiter.id, tick, waiter.recorded);
  }

  CudaDevice device_;
  Pool pool_;
  std::vector<Stream> streams_;
  std::vector<Chunk> chunks_;
  bool event_per_free_;
};

std::vector<cudaStream_t> make_streams(std::uint32_t count) {
  std::vector<cudaStream_t> streams(count, nullptr);
  for (std::uint32_t i = 1; i < count; ++i) cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking);
  return streams;
}

class Native final : public Allocator {
 public:
  explicit Native(const Sequence& sequence) : streams_(make_streams(sequence.streams)), memory_(sequence.ids) {
    static bool started = false;
    if (!started) c10::cuda::CUDACachingAllocator::init(1);
    started = true;
    c10::cuda::CUDACachingAllocator::resetPeakStats(0);
  }
  ~Native() override {
    for (void* memory : memory_)
      if (memory != nullptr) c10::cuda::CUDACachingAllocator::raw_delete(memory);
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

  void allocate(std::uint32_t id, Bytes size, std::uint32_t stream) override {
    memory_[id] = c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(static_cast<std::size_t>(size.count),
                                                                         streams_[stream]);
  }
  void free(std::uint32_t id) override {
    c10::cuda::CUDACachingAllocator::raw_delete(memory_[id]);
    memory_[id] = nullptr;
  }
  [[nodiscard]] Bytes peak_reserved() override {
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return {c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes.at(kAll).peak};
  }

 private:
  std::vector<cudaStream_t> streams_;
  std::vector<void*> memory_;
};

void check_runtime(cudaError_t result) {
  if (result != cudaSuccess) throw DeviceError(cudaGetErrorString(result));
}

// As torch's backend of that name: nothing goes back to the driver at a synchronisation.
class Async final : public Allocator {
 public:
  explicit Async(const Sequence& sequence) : streams_(make_streams(sequence.streams)), memory_(sequence.ids) {
    check_runtime(cudaDeviceGetDefaultMemPool(&pool_, 0));
    std::uint64_t keep = UINT64_MAX, zero = 0;
    check_runtime(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
    check_runtime(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &zero));
  }
  ~Async() override {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if (memory_[i].address != nullptr) cudaFreeAsync(memory_[i].address, memory_[i].stream);
    cudaDeviceSynchronize();
    cudaMemPoolTrimTo(pool_, 0);
  }

  void allocate(std::uint32_t id, Bytes size, std::uint32_t stream) override {
    memory_[id].stream = streams_[stream];
    check_runtime(cudaMallocAsync(&memory_[id].address, static_cast<std::size_t>(size.count), streams_[stream]));
  }
  void free(std::uint32_t id) override {
    check_runtime(cudaFreeAsync(memory_[id].address, memory_[id].stream));
    memory_[id].address = nullptr;
  }
  [[nodiscard]] Bytes peak_reserved() override {
    std::uint64_t high = 0;
    check_runtime(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &high));
    return {static_cast<std::int64_t>(high)};
  }

 private:
  struct Memory {
    void* address = nullptr;
    cudaStream_t stream = nullptr;
  };
  cudaMemPool_t pool_ = nullptr;
  std::vector<cudaStream_t> streams_;
  std::vector<Memory> memory_;
};

std::unique_ptr<Allocator> make_allocator(const std::string& name, const Sequence& sequence) {
  if (name == "ours") return std::make_unique<Ours>(sequence, 2_MiB, /*event_per_free=*/false);
  if (name == "coarse") return std::make_unique<Ours>(sequence, 16_MiB, /*event_per_free=*/false);
  if (name == "events") return std::make_unique<Ours>(sequence, 2_MiB, /*event_per_free=*/true);
  if (name == "native") return std::make_unique<Native>(sequence);
  if (name == "async") return std::make_unique<Async>(sequence);
  throw InputError("--only takes ours, coarse, events, native, async; not " + name);
}

// ---------------------------------------------------------------------------------------------------------- the replay

struct Result {
  double cold_ms = 0, pair_ns = 0;  // pair_ns: median of the steady rounds
  Bytes reserved_cold, reserved;    // peak of the first round, of all
};

double replay(Allocator& allocator, const std::vector<Event>& events) {
  const auto begin = std::chrono::steady_clock::now();
  for (const Event& event : events) {
    if (event.allocates) {
      allocator.allocate(event.id, event.size, event.stream);
    } else {
      allocator.free(event.id);
    }
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

Result measure(const std::string& name, const Sequence& sequence, int rounds) {
  const std::unique_ptr<Allocator> allocator = make_allocator(name, sequence);
  Result result;
  result.cold_ms = (replay(*allocator, sequence.kept) + replay(*allocator, sequence.round)) / 1e6;
  result.reserved_cold = allocator->peak_reserved();
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(replay(*allocator, sequence.round));
  std::ranges::nth_element(times, times.begin() + rounds / 2);
  result.pair_ns = times[static_cast<std::size_t>(rounds / 2)] / (static_cast<double>(sequence.round.size()) / 2);
  result.reserved = allocator->peak_reserved();
  return result;
}

double mib(Bytes bytes) { return static_cast<double>(bytes.count) / 1048576.0; }

void print_row(const Sequence& sequence, const std::string& name, const Result& result) {
  const auto above = [&](Bytes reserved) { return 100.0 * (mib(reserved) / mib(sequence.peak_live) - 1); };
  std::printf("%-20s %-8s %7zu %9.0f %9.1f %10.1f %13.1f %8.1f %% %8.1f %%\n", sequence.name.c_str(), name.c_str(),
              sequence.round.size() / 2, result.pair_ns, result.cold_ms, mib(sequence.peak_live), mib(result.reserved),
              above(result.reserved_cold), above(result.reserved));
  std::fflush(stdout);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

void run(int count, char** arguments) {
  int rounds = 50;
  std::vector<std::string> names = {"ours", "coarse", "events", "native", "async"}, paths;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const bool takes_value = argument == "--rounds" || argument == "--only";
    if (takes_value && i + 1 == count) throw InputError(argument + " wants a value");
    if (argument == "--rounds") rounds = std::max(1, std::stoi(arguments[++i]));
    else if (argument == "--only") names = split(arguments[++i]);
    else paths.push_back(argument);
  }
  std::printf("%-20s %-8s %7s %9s %9s %10s %13s %10s %10s\n", "sequence", "by", "pairs", "ns/pair", "cold ms", "live MiB",
              "reserved MiB", "above cold", "above");
  for (const std::string& path : paths) {
    const Sequence sequence = read_sequence(path);
    for (const std::string& name : names) print_row(sequence, name, measure(name, sequence, rounds));
  }
}

}  // namespace
}  // namespace spillway

int main(int count, char** arguments) {
  try {
    spillway::run(count, arguments);
  } catch (const std::exception& error) {
    std::cerr << "pool_cuda: " << error.what() << "\n";
    return 1;
  }
}
