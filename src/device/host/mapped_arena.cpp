#include "device/host/mapped_arena.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"

namespace spillway {
namespace {

std::size_t length(Range range) { return static_cast<std::size_t>(range.length().count); }

[[noreturn]] void fail(const char* call, Range range) {
  const std::string why = std::strerror(errno);
  throw DeviceError(std::string(call) + " of " + std::to_string(range.length().count) + " bytes failed: " + why);
}

}  // namespace

MappedArena::MappedArena(Bytes size, Bytes alignment) : mapped_(size + alignment) {
  void* mapping = mmap(nullptr, static_cast<std::size_t>(mapped_.count), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) fail("mmap", {0_B, mapped_});
  mapping_ = static_cast<std::byte*>(mapping);
  const auto address = static_cast<std::int64_t>(std::bit_cast<std::uintptr_t>(mapping_));
  begin_ = mapping_ + (round_up(Bytes{address}, alignment).count - address);
}

MappedArena::~MappedArena() { munmap(mapping_, static_cast<std::size_t>(mapped_.count)); }

bool MappedArena::try_commit(Range range) {
  if (mprotect(begin_ + range.begin.count, length(range), PROT_READ | PROT_WRITE) == 0) return true;
  if (errno == ENOMEM || errno == EAGAIN) return false;
  fail("mprotect", range);
}

// The memory goes back even where the system will not split one more mapping (vm.max_map_count); only the fault on a
// late access is lost then.
void MappedArena::decommit(Range range) {
  std::byte* at = begin_ + range.begin.count;
  if (madvise(at, length(range), MADV_DONTNEED) != 0) fail("madvise", range);
  if (mprotect(at, length(range), PROT_NONE) != 0 && errno != ENOMEM) fail("mprotect", range);
}

}  // namespace spillway
