#include "device/cuda/pinned_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/cuda/driver.h"

namespace spillway {
namespace {

constexpr Bytes kHugePage = 2_MiB;  // x86-64 and arm64 with 4 KiB base pages
constexpr Bytes kBasePage = 4_KiB;  // touching more often than needed does no harm where pages are larger

std::size_t length_of(Range range) { return static_cast<std::size_t>(range.length().count); }

// Brings every page in. False when the system has none left.
bool populate(std::byte* begin, std::size_t size) {
  if (madvise(begin, size, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;  // EINVAL: a kernel before 5.14
  for (std::size_t at = 0; at < size; at += static_cast<std::size_t>(kBasePage.count))
    static_cast<volatile std::byte*>(begin)[at] = std::byte{0};
  return true;
}

// What a limit on pinned memory looks like through the driver.
bool is_refusal(CUresult result) {
  return result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_OPERATING_SYSTEM ||
         result == CUDA_ERROR_NOT_PERMITTED;
}

}  // namespace

PinnedArena::PinnedArena(Bytes size, Bytes granule, Bytes slab, int touch_threads)
    : granule_(granule),
      slab_(round_up(std::max(slab, granule), granule)),
      touch_threads_(std::max(touch_threads, 1)),
      pages_(size, std::max(granule, kHugePage)) {}

PinnedArena::~PinnedArena() {
  for (const auto& [begin, end] : slabs_) cuda_driver().cuMemHostUnregister(address(begin));
}

bool PinnedArena::try_commit(Range range) {
  if (!pages_.try_commit(range)) return false;
  // Wishes: without huge pages it is only slower. A forked child must not share pages the card writes to.
  madvise(address(range.begin), length_of(range), MADV_HUGEPAGE);
  madvise(address(range.begin), length_of(range), MADV_DONTFORK);
  if (!try_touch(range) || !try_register_slabs(range)) {
    pages_.decommit(range);
    return false;
  }
  const std::unique_lock lock(mutex_);
  for (Bytes begin = range.begin; begin < range.end; begin += slab_) slabs_[begin] = std::min(begin + slab_, range.end);
  return true;
}

void PinnedArena::decommit(Range range) {
  const std::unique_lock lock(mutex_);
  for (Bytes at = range.begin; at < range.end;) {
    const Range slab = slab_at(at);
    at = slab.end;
    split(slab, range);
  }
  pages_.decommit(range);
}

// Note [A slab in part]: the rest of a slab that loses some granules keeps its bytes but must be registered anew, and
// no copy may be under way in it meanwhile. Copies of the caller's other ranges may well be, so this waits for the card
// and keeps new copies out. Whole slabs leave without any wait.
void PinnedArena::split(Range slab, Range leaving) {
  if (!leaving.contains(slab)) SPILLWAY_CU(cuCtxSynchronize);
  SPILLWAY_CU(cuMemHostUnregister, address(slab.begin));
  slabs_.erase(slab.begin);
  for (const Range rest : {Range{slab.begin, leaving.begin}, Range{leaving.end, slab.end}}) {
    if (rest.empty()) continue;
    if (!try_register(rest)) throw DeviceError("cuMemHostRegister: refused memory that was registered before");
    slabs_[rest.begin] = rest.end;
  }
}

Range PinnedArena::slab_at(Bytes offset) const {
  auto next = slabs_.upper_bound(offset);
  SPILLWAY_ENSURE(next != slabs_.begin(), "the place is committed");
  const auto& [begin, end] = *--next;
  SPILLWAY_ENSURE(offset < end, "the place is committed");
  return {begin, end};
}

bool PinnedArena::try_touch(Range range) {
  const auto threads = std::min<std::int64_t>(touch_threads_, range.length() / granule_);
  const auto size = static_cast<std::size_t>(granule_.count);
  std::atomic<bool> complete = true;
  const auto touch = [&](std::int64_t first) {
    for (Bytes at = range.begin + granule_ * first; at < range.end; at += granule_ * threads)
      if (!populate(address(at), size)) complete = false;
  };
  {
    std::vector<std::jthread> helpers;
    for (std::int64_t i = 1; i < threads; ++i) helpers.emplace_back(touch, i);
    touch(0);
  }
  return complete;
}

bool PinnedArena::try_register(Range range) {
  const CUresult result =
      cuda_driver().cuMemHostRegister(address(range.begin), length_of(range), CU_MEMHOSTREGISTER_PORTABLE);
  if (is_refusal(result)) return false;
  check_cuda("cuMemHostRegister", result);
  return true;
}

bool PinnedArena::try_register_slabs(Range range) {
  for (Bytes begin = range.begin; begin < range.end; begin += slab_) {
    if (try_register({begin, std::min(begin + slab_, range.end)})) continue;
    for (Bytes done = range.begin; done < begin; done += slab_) SPILLWAY_CU(cuMemHostUnregister, address(done));
    return false;
  }
  return true;
}

}  // namespace spillway
