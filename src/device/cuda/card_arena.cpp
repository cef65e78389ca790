#include "device/cuda/card_arena.h"

#include "device/cuda/driver.h"

namespace spillway {
namespace {

CUmemLocation location_of(CUdevice card) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = card;
  return location;
}

CUmemAllocationProp allocation_on(CUdevice card) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location_of(card);
  return properties;
}

std::size_t length_of(Range range) { return static_cast<std::size_t>(range.length().count); }

}  // namespace

CardArena::CardArena(CUdevice card, Bytes size, Bytes granule) : card_(card), size_(size), granule_(granule) {
  SPILLWAY_CU(cuMemAddressReserve, &base_, static_cast<std::size_t>(size.count), /*alignment=*/0, /*addr=*/0, 0);
}

CardArena::~CardArena() { cuda_driver().cuMemAddressFree(base_, static_cast<std::size_t>(size_.count)); }

Bytes CardArena::granularity(CUdevice card) {
  const CUmemAllocationProp properties = allocation_on(card);
  std::size_t bytes = 0;
  SPILLWAY_CU(cuMemGetAllocationGranularity, &bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  return {static_cast<std::int64_t>(bytes)};
}

bool CardArena::try_commit(Range range) {
  Bytes mapped_end = range.begin;
  CUresult result = map_granules(range, mapped_end);
  if (result == CUDA_SUCCESS) result = allow_access(range);
  if (result != CUDA_SUCCESS && mapped_end > range.begin) (void)unmap({range.begin, mapped_end});
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return false;
  check_cuda("committing device memory", result);
  return true;
}

void CardArena::decommit(Range range) { check_cuda("cuMemUnmap", unmap(range)); }

void CardArena::map_again(std::span<const Range> to, std::span<const Range> from) {
  auto source = from.begin();
  Bytes at = source->begin;
  CUresult result = CUDA_SUCCESS;
  Bytes mapped_end;
  auto into = to.begin();
  for (; into != to.end() && result == CUDA_SUCCESS; ++into) {
    for (mapped_end = into->begin; mapped_end < into->end; mapped_end += granule_, at += granule_) {
      if (at == source->end) at = (++source)->begin;
      if ((result = map_granule_again(mapped_end, at)) != CUDA_SUCCESS) break;
    }
    if (result == CUDA_SUCCESS) result = allow_access(*into);
  }
  if (result == CUDA_SUCCESS) return;
  if (const Range last{(--into)->begin, mapped_end}; !last.empty()) (void)unmap(last);
  while (into != to.begin()) (void)unmap(*--into);
  fail_cuda("mapping device memory again", result);
}

CUresult CardArena::map_granule_again(Bytes to, Bytes from) {
  CUmemGenericAllocationHandle memory = 0;
  CUresult result = cuda_driver().cuMemRetainAllocationHandle(&memory, reinterpret_cast<void*>(address(from)));
  if (result != CUDA_SUCCESS) return result;
  result = cuda_driver().cuMemMap(address(to), static_cast<std::size_t>(granule_.count), 0, memory, 0);
  cuda_driver().cuMemRelease(memory);
  return result;
}

CUresult CardArena::map_granules(Range range, Bytes& mapped_end) {
  const CUmemAllocationProp properties = allocation_on(card_);
  const auto granule = static_cast<std::size_t>(granule_.count);
  while (mapped_end < range.end) {
    CUmemGenericAllocationHandle memory = 0;
    CUresult result = cuda_driver().cuMemCreate(&memory, granule, &properties, 0);
    if (result != CUDA_SUCCESS) return result;
    result = cuda_driver().cuMemMap(address(mapped_end), granule, 0, memory, 0);
    cuda_driver().cuMemRelease(memory);
    if (result != CUDA_SUCCESS) return result;
    mapped_end += granule_;
  }
  return CUDA_SUCCESS;
}

CUresult CardArena::allow_access(Range range) {
  CUmemAccessDesc access{};
  access.location = location_of(card_);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cuda_driver().cuMemSetAccess(address(range.begin), length_of(range), &access, 1);
}

CUresult CardArena::unmap(Range range) { return cuda_driver().cuMemUnmap(address(range.begin), length_of(range)); }

}  // namespace spillway
