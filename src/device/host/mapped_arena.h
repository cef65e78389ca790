// A contiguous stretch of addresses with memory behind the committed parts of it only.
//
// What is not committed is mapped without access: a late read or write of memory that was given back faults on the spot
// instead of seeing another owner's bytes. Which ranges are committed is the caller's book (Ledger). Safe from several
// threads as long as their ranges are apart.
#pragma once

#include <cstddef>

#include "base/range.h"

namespace spillway {

class MappedArena {
 public:
  // Throws DeviceError when there is no such stretch of addresses. `begin()` is a multiple of the alignment.
  MappedArena(Bytes size, Bytes alignment);
  ~MappedArena();
  MappedArena(const MappedArena&) = delete;
  MappedArena& operator=(const MappedArena&) = delete;

  [[nodiscard]] std::byte* begin() const { return begin_; }

  // False when the system refuses the memory.
  [[nodiscard]] bool try_commit(Range range);
  void decommit(Range range);

 private:
  Bytes mapped_;
  std::byte* mapping_;  // what mmap gave, of length mapped_; begin_ is the first aligned address in it
  std::byte* begin_;
};

}  // namespace spillway
