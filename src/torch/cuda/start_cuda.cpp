#include "torch/cuda/start_cuda.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "base/error.h"
#include "base/text.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "device/granules.h"
#include "torch/cuda/cuda_allocator.h"
#include "torch/cuda/cuda_op_clock.h"
#include "torch/cuda/native_source.h"
#include "torch/host_room.h"
#include "torch/start.h"

namespace spillway {

namespace {

// Address space costs nothing; several times the largest card leaves room to remap.
constexpr Bytes kCardSpace = 1024_GiB;
// Longer than any storage: an access at any offset of an evicted one faults.
constexpr Bytes kNoAccess = 512_GiB;
// Pinned memory is registered slab by slab; fewer, larger ones copy faster (CudaOptions::host_slab).
constexpr Bytes kHostStep = 64_MiB;
constexpr Bytes kFileRoom = 512_GiB;
// Reserved addresses of the card that never get memory.
std::byte* reserve_no_access() {
  CUdeviceptr base = 0;
  SPILLWAY_CU(cuMemAddressReserve, &base, static_cast<std::size_t>(kNoAccess.count), /*alignment=*/0, /*addr=*/0, 0);
  return reinterpret_cast<std::byte*>(base);
}

CudaOptions card_options(const EngineOptions& engine, const CudaStart& start) {
  CudaOptions card;
  card.card = start.card;
  card.granule = engine.granule;
  card.foreign_memory = start.native_allocator;
  if (start.spill_folder) card.file = SpillFileOptions{.folder = *start.spill_folder};
  return card;
}

// What torch's own allocator holds for tensors made before us counts against the budget, and never leaves.
void refuse_below_what_is_there(Bytes budget, c10::DeviceIndex index) {
  namespace native = c10::cuda::CUDACachingAllocator;
  if (Bytes{native::getDeviceStats(index).reserved_bytes[0].current} > budget) native::emptyCache();
  const Bytes held{native::getDeviceStats(index).reserved_bytes[0].current};
  if (held <= budget) return;
  throw InputError("a budget of " + to_text(budget) + " is below what is allocated already: torch holds " + to_text(held) +
                   " for tensors made before; free them first, or choose more");
}

}  // namespace

MoverOptions card_tiers(std::optional<Bytes> host_limit, bool has_folder) {
  return {.host_limit = host_limit.value_or(room_on_host() * 8 / 10), .file_limit = has_folder ? kFileRoom : 0_B, .host_granule = kHostStep};
}

void start_on_cuda(EngineOptions engine, const CudaStart& start) {
  engine.granule = card_granule(engine.budget);
  if (engine.budget) refuse_below_smallest(*engine.budget, engine.granule);
  engine.address_space = kCardSpace;
  engine.costs = card_costs(start.rates);
  engine.move_nanos_per_byte = card_move_nanos(engine.costs);
  if (engine.budget) {
    const MoverOptions tiers = card_tiers(start.host_limit, start.spill_folder.has_value());
    engine.host_limit = tiers.host_limit;
    engine.file_limit = tiers.file_limit;
    engine.host_granule = tiers.host_granule;
  }
  at::globalContext().lazyInitDevice(c10::kCUDA);
  const auto index = static_cast<c10::DeviceIndex>(start.card);
  const c10::cuda::CUDAGuard guard(index);
  if (engine.budget) refuse_below_what_is_there(*engine.budget, index);
  auto device = std::make_unique<CudaDevice>(card_options(engine, start));
  CudaDevice& card = *device;
  const StreamId compute = current_cuda_stream(card, index);
  AdapterOptions options{.where = c10::Device(c10::kCUDA, index), .no_access = reserve_no_access(),
                         .current_stream = [&card, index] { return current_cuda_stream(card, index); },
                         .free_foreign = &free_native, .roofline = std::make_unique<Roofline>(start.rates), .capturing = &is_capturing,
                         .clock = std::make_unique<CudaOpClock>(start.card),
                         .allocator = start.native_allocator ? "native" : "spillway"};
  std::unique_ptr<BlockSource> source;
  if (start.native_allocator) source = std::make_unique<NativeSource>(*c10::cuda::CUDACachingAllocator::get(), card, index);
  install(std::make_unique<Adapter>(std::move(device), compute, engine, std::move(options), std::move(source)));
  install_cuda_allocator(*adapter(), card, start.adaptive_workspace);
}

}  // namespace spillway
