// The card's own memory: one reserved run of addresses, with physical memory mapped behind it granule by granule.
//
// Every granule is a physical allocation of its own, because the driver can unmap an allocation only whole and any
// granule must be able to leave alone. Its handle is released right after mapping, so the mapping is the only thing that
// holds the memory: unmapping gives it back to the driver at once, and nothing is cached here.
//
// The price is per granule, whatever its size: 46 us to commit and 38 us to give back, 22 and 19 ms for 1 GiB in granules
// of 2 MiB, 2.7 and 2.8 ms in granules of 16 MiB (NVIDIA H200, gpu_tests --gtest_filter='CudaFigures.Commit*').
// Granting access and unmapping are one call for the whole range. Which ranges are committed is the caller's book
// (Ledger). Safe from several threads as long as their ranges are apart; the context must be current.
#pragma once

#include <cuda.h>

#include <span>

#include "base/range.h"

namespace spillway {

class CardArena {
 public:
  CardArena(CUdevice card, Bytes size, Bytes granule);
  ~CardArena();  // everything has been decommitted
  CardArena(const CardArena&) = delete;
  CardArena& operator=(const CardArena&) = delete;

  // False when the card has no memory for it.
  [[nodiscard]] bool try_commit(Range range);
  void decommit(Range range);
  // What is behind `from` is behind `to`, too, which has no memory and is as long. Until `from` is decommitted both addresses lead to it;
  // work is ordered between them as between any two uses of memory. Microseconds a granule: nothing is allocated and nobody waited for.
  void map_again(std::span<const Range> to, std::span<const Range> from);

  [[nodiscard]] CUdeviceptr address(Bytes offset) const { return base_ + static_cast<CUdeviceptr>(offset.count); }

  // The smallest physical allocation the driver makes on this card.
  [[nodiscard]] static Bytes granularity(CUdevice card);

 private:
  [[nodiscard]] CUresult map_granules(Range range, Bytes& mapped_end);
  [[nodiscard]] CUresult map_granule_again(Bytes to, Bytes from);
  [[nodiscard]] CUresult allow_access(Range range);
  [[nodiscard]] CUresult unmap(Range range);

  CUdevice card_;
  Bytes size_, granule_;
  CUdeviceptr base_ = 0;
};

}  // namespace spillway
