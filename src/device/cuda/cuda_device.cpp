#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "device/cuda/card_arena.h"
#include "device/cuda/driver.h"
#include "device/cuda/file_route.h"
#include "device/cuda/host_work.h"
#include "device/cuda/old_addresses.h"
#include "device/cuda/pinned_arena.h"
#include "device/cuda/stream_table.h"
#include "device/ledger.h"

namespace spillway {
namespace {

CUdevice find_card(int index) {
  int count = 0;
  SPILLWAY_CU(cuDeviceGetCount, &count);
  if (index < 0 || index >= count)
    throw InputError("no card " + std::to_string(index) + ": the driver shows " + std::to_string(count));
  CUdevice card = 0;
  SPILLWAY_CU(cuDeviceGet, &card, index);
  return card;
}

// The primary context is the one torch uses as well; it lives as long as somebody holds it.
struct PrimaryContext {
  explicit PrimaryContext(CUdevice which) : card(which) { SPILLWAY_CU(cuDevicePrimaryCtxRetain, &handle, card); }
  ~PrimaryContext() { cuda_driver().cuDevicePrimaryCtxRelease(card); }
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  CUdevice card;
  CUcontext handle = nullptr;
};

// A multiple of what the driver can do, and at least that.
Bytes choose_granule(CUdevice card, Bytes wanted) {
  const Bytes smallest = CardArena::granularity(card);
  return round_up(std::max(wanted, smallest), smallest);
}

DeviceFacts read_facts(const PrimaryContext& context, Bytes granule) {
  const CudaScope scope(context.handle);
  std::array<char, 256> name{};
  SPILLWAY_CU(cuDeviceGetName, name.data(), static_cast<int>(name.size()), context.card);
  std::size_t free = 0, total = 0;
  SPILLWAY_CU(cuMemGetInfo, &free, &total);
  return {.name = name.data(),
          .granule = choose_granule(context.card, granule),
          .memory = {static_cast<std::int64_t>(total)},
          .holds_bytes = true};
}

constexpr int route(Tier to, Tier from) { return static_cast<int>(to) * kTierCount + static_cast<int>(from); }

std::size_t count_of(Bytes size) { return static_cast<std::size_t>(size.count); }

}  // namespace

// Members in the order of need. The ledgers count a range from before it is committed until after it is given back.
struct CudaDevice::Card {
  explicit Card(CudaOptions chosen)
      : options(std::move(chosen)),
        context(find_card(options.card)),
        facts(read_facts(context, options.granule)),
        ledgers{Ledger(facts.granule, options.memory), Ledger(facts.granule, options.host_memory),
                Ledger(facts.granule, options.file_room)},
        streams(options.time_adopted) {}
  ~Card();

  [[nodiscard]] Ledger& ledger(Tier tier) { return ledgers[static_cast<std::size_t>(tier)]; }
  void reserve(Tier tier, Bytes size);
  [[nodiscard]] bool try_commit(Tier tier, Range range);
  void decommit(Tier tier, Range range);
  void copy(CUstream on, Place to, Place from, Bytes size);
  void copy_between_card_and_host(CUstream on, Place to, Place from, Bytes size);
  void copy_within_host(CUstream on, Bytes to, Bytes from, Bytes size);
  [[nodiscard]] bool watches(Place place) const { return place.tier != Tier::device || !options.foreign_memory; }
  [[nodiscard]] CUdeviceptr at(Bytes offset) const {
    return options.foreign_memory ? static_cast<CUdeviceptr>(offset.count) : memory->address(offset);
  }

  CudaOptions options;
  PrimaryContext context;
  DeviceFacts facts;
  std::mutex books;  // of the ledgers
  std::array<Ledger, kTierCount> ledgers;
  HostWork work;
  std::unique_ptr<CardArena> memory;
  std::unique_ptr<PinnedArena> pinned;
  std::unique_ptr<FileRoute> file;
  StreamTable streams;
  OldAddresses old_addresses;
};

// What is enqueued anywhere may still touch the arenas, so the card comes to rest first. Members go in the context.
CudaDevice::Card::~Card() {
  cuda_driver().cuCtxSynchronize();
  if (memory) old_addresses.clear_all(*memory);
  Ledger& books_of_card = ledger(Tier::device);
  for (Bytes at; books_of_card.committed() > 0_B; at += facts.granule) {
    const Range granule{at, at + facts.granule};
    if (!books_of_card.holds(granule)) continue;
    cuda_driver().cuMemUnmap(memory->address(at), count_of(facts.granule));
    books_of_card.decommit(granule);
  }
}

void CudaDevice::Card::reserve(Tier tier, Bytes size) {
  const std::lock_guard lock(books);
  Ledger checked = ledger(tier);
  checked.reserve(size);
  switch (tier) {
    case Tier::device: memory = std::make_unique<CardArena>(context.card, size, facts.granule); break;
    case Tier::host:
      pinned = std::make_unique<PinnedArena>(size, facts.granule, options.host_slab, options.touch_threads);
      break;
    case Tier::file:
      if (!options.file) throw InputError("there is no file tier: name a folder on a disk with --spill-dir");
      file = std::make_unique<FileRoute>(*options.file, work);
  }
  ledger(tier) = checked;
}

bool CudaDevice::Card::try_commit(Tier tier, Range range) {
  switch (tier) {
    case Tier::device:
      old_addresses.clear(*memory, streams, range);
      return memory->try_commit(range);
    case Tier::host: return pinned->try_commit(range);
    case Tier::file: return file->try_commit(range);
  }
  return false;
}

void CudaDevice::Card::decommit(Tier tier, Range range) {
  switch (tier) {
    case Tier::device:
      old_addresses.clear(*memory, streams);
      return memory->decommit(range);
    case Tier::host: return pinned->decommit(range);
    case Tier::file: return file->decommit(range);
  }
}

void CudaDevice::Card::copy(CUstream on, Place to, Place from, Bytes size) {
  switch (route(to.tier, from.tier)) {
    case route(Tier::device, Tier::device):
      return SPILLWAY_CU(cuMemcpyDtoDAsync, at(to.offset), at(from.offset), count_of(size), on);
    case route(Tier::device, Tier::host):
    case route(Tier::host, Tier::device): return copy_between_card_and_host(on, to, from, size);
    case route(Tier::host, Tier::host): return copy_within_host(on, to.offset, from.offset, size);
    case route(Tier::file, Tier::device): return file->card_to_file(on, to.offset, at(from.offset), size);
    case route(Tier::device, Tier::file): return file->file_to_card(on, at(to.offset), from.offset, size);
    case route(Tier::file, Tier::host): return file->host_to_file(on, to.offset, pinned->address(from.offset), size);
    case route(Tier::host, Tier::file): return file->file_to_host(on, pinned->address(to.offset), from.offset, size);
    case route(Tier::file, Tier::file): return file->file_to_file(on, to.offset, from.offset, size);
  }
}

void CudaDevice::Card::copy_between_card_and_host(CUstream on, Place to, Place from, Bytes size) {
  const bool out = to.tier == Tier::host;
  const Bytes host = out ? to.offset : from.offset;
  const CUdeviceptr card = at(out ? from.offset : to.offset);
  pinned->for_each_piece({host, host + size}, [&](Range piece) {
    const CUdeviceptr here = card + static_cast<CUdeviceptr>((piece.begin - host).count);
    std::byte* bytes = pinned->address(piece.begin);
    if (out) {
      SPILLWAY_CU(cuMemcpyDtoHAsync, bytes, here, count_of(piece.length()), on);
    } else {
      SPILLWAY_CU(cuMemcpyHtoDAsync, here, bytes, count_of(piece.length()), on);
    }
  });
}

// The driver copies from host to host before it returns, so the host does it as work of the stream.
void CudaDevice::Card::copy_within_host(CUstream on, Bytes to, Bytes from, Bytes size) {
  std::byte* target = pinned->address(to);
  const std::byte* source = pinned->address(from);
  work.enqueue(on, [=] { std::memcpy(target, source, count_of(size)); });
}

CudaDevice::CudaDevice(CudaOptions options) : card_(std::make_unique<Card>(std::move(options))) {}

// Errors go unheard: at the end of a process the driver may be gone already.
CudaDevice::~CudaDevice() {
  const CudaDriver& calls = cuda_driver();
  const CUdevice card = card_->context.card;
  CUcontext context = nullptr;
  calls.cuDevicePrimaryCtxRetain(&context, card);  // so that the last release is not that of a current context
  calls.cuCtxPushCurrent(context);
  card_.reset();
  calls.cuCtxPopCurrent(&context);
  calls.cuDevicePrimaryCtxRelease(card);
}

std::string CudaDevice::why_unavailable(int card) {
  try {
    (void)find_card(card);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

StreamId CudaDevice::adopt_stream(CUstream_st* stream) { return card_->streams.adopt(stream); }

CUstream_st* CudaDevice::handle(StreamId stream) const { return card_->streams.handle(stream); }
bool CudaDevice::is_adopted(StreamId stream) const { return !card_->streams.is_own(stream); }

void CudaDevice::call(StreamId on, std::function<void()> work) {
  const CudaScope scope(card_->context.handle);
  card_->work.enqueue(card_->streams.handle(on), std::move(work));
}

Bytes CudaDevice::free_memory() const {
  const CudaScope scope(card_->context.handle);
  std::size_t free = 0, total = 0;
  SPILLWAY_CU(cuMemGetInfo, &free, &total);
  return {static_cast<std::int64_t>(free)};
}

const DeviceFacts& CudaDevice::facts() const { return card_->facts; }

void CudaDevice::reserve(Tier tier, Bytes size) {
  const CudaScope scope(card_->context.handle);
  card_->reserve(tier, size);
}

bool CudaDevice::try_commit(Tier tier, Range range) {
  const CudaScope scope(card_->context.handle);
  {
    const std::lock_guard lock(card_->books);
    if (!card_->ledger(tier).try_commit(range)) return false;
  }
  const auto strike = [&] {
    const std::lock_guard lock(card_->books);
    card_->ledger(tier).decommit(range);
  };
  try {
    const bool granted = card_->try_commit(tier, range);
    if (!granted) strike();
    return granted;
  } catch (...) {
    strike();
    throw;
  }
}

void CudaDevice::decommit(Tier tier, Range range) {
  const CudaScope scope(card_->context.handle);
  {
    const std::lock_guard lock(card_->books);
    card_->ledger(tier).check_decommit(range);
  }
  card_->decommit(tier, range);
  const std::lock_guard lock(card_->books);
  card_->ledger(tier).decommit(range);
}

// The books follow: nobody else may commit or decommit in the tier meanwhile (Arena).
bool CudaDevice::try_move(Tier tier, std::span<const Range> to, std::span<const Range> from, std::span<const Tick> in_use) {
  if (tier != Tier::device) return false;
  const CudaScope scope(card_->context.handle);
  Ledger changed = [&] {
    const std::lock_guard lock(card_->books);
    return card_->ledger(tier);
  }();
  changed.move(to, from);
  for (const Range range : to) card_->old_addresses.clear(*card_->memory, card_->streams, range);
  card_->memory->map_again(to, from);
  card_->old_addresses.add(from, in_use);
  const std::lock_guard lock(card_->books);
  card_->ledger(tier).move(to, from);
  return true;
}

Bytes CudaDevice::committed(Tier tier) const {
  const std::lock_guard lock(card_->books);
  return card_->ledger(tier).committed();
}

std::byte* CudaDevice::address(Tier tier, Bytes offset) const {
  const bool there = card_->memory || card_->options.foreign_memory;
  if (tier == Tier::device && there) return reinterpret_cast<std::byte*>(card_->at(offset));
  if (tier == Tier::host && card_->pinned) return card_->pinned->address(offset);
  return nullptr;
}

StreamId CudaDevice::open_stream() {
  const CudaScope scope(card_->context.handle);
  return card_->streams.open();
}

void CudaDevice::copy(StreamId on, Place to, Place from, Bytes size) {
  if (size == 0_B) return;
  if (card_->watches(to) && card_->watches(from)) {
    const std::lock_guard lock(card_->books);
    check_copy(card_->ledger(to.tier), to, card_->ledger(from.tier), from, size);
  }
  const CudaScope scope(card_->context.handle);
  card_->copy(card_->streams.handle(on), to, from, size);
}

void CudaDevice::fill(StreamId on, Bytes offset, Bytes size, std::byte value) {
  if (size == 0_B) return;
  if (card_->watches({Tier::device, offset})) {
    const std::lock_guard lock(card_->books);
    SPILLWAY_ENSURE(card_->ledger(Tier::device).holds({offset, offset + size}), "a fill writes committed memory");
  }
  const CudaScope scope(card_->context.handle);
  SPILLWAY_CU(cuMemsetD8Async, card_->at(offset), std::to_integer<unsigned char>(value), count_of(size), card_->streams.handle(on));
}

Tick CudaDevice::record(StreamId on) {
  const CudaScope scope(card_->context.handle);
  return card_->streams.record(on);
}

Tick CudaDevice::record_timed(StreamId on) {
  const CudaScope scope(card_->context.handle);
  return card_->streams.record(on, /*timed=*/true);
}

Tick CudaDevice::mark(StreamId on) { return card_->streams.mark(on); }

void CudaDevice::wait(StreamId waiter, Tick tick) {
  const CudaScope scope(card_->context.handle);
  card_->streams.wait(waiter, tick);
}

bool CudaDevice::query(Tick tick) {
  card_->work.rethrow();
  if (card_->streams.knows_done(tick)) return true;
  const CudaScope scope(card_->context.handle);
  const bool done = card_->streams.query(tick);
  card_->work.rethrow();
  return done;
}

void CudaDevice::synchronize(Tick tick) {
  const CudaScope scope(card_->context.handle);
  card_->streams.synchronize(tick);
  card_->work.rethrow();
}

Nanos CudaDevice::elapsed(Tick from, Tick to) {
  const CudaScope scope(card_->context.handle);
  return card_->streams.elapsed(from, to);
}

Nanos CudaDevice::now() const {
  return {std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

}  // namespace spillway
