// Host memory the card can copy from and to at full speed: a reserved run of addresses, committed in pinned slabs.
//
// Pinning is dear and page faults are most of it, so a commit asks for huge pages, touches them from several threads
// and then registers each slab with the driver once. The driver knows slabs, not granules: it unregisters a slab whole,
// and it refuses one copy over two of them. So copies go piece by piece (for_each_piece), and decommitting a part of a
// slab registers what is left of it anew, which waits for the card (Note [A slab in part]).
//
// 2 GiB take 144 ms with 4 threads and slabs of 64 MiB, 160 ms with slabs of 2 MiB, 373 ms with 1 thread; mapped by the
// driver as host memory they take 614 ms (NVIDIA H200 with 16 cores, gpu_tests --gtest_filter='CudaFigures.*').
//
//   slabs_ cover exactly the committed granules
//
// Which ranges are committed is the caller's book (Ledger). Safe from several threads as long as their ranges are apart;
// a commit takes the lock only to enter its slabs, so that copies go on beside it. The context must be current.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <shared_mutex>

#include "base/range.h"
#include "device/host/mapped_arena.h"

namespace spillway {

class PinnedArena {
 public:
  PinnedArena(Bytes size, Bytes granule, Bytes slab, int touch_threads);
  ~PinnedArena();  // nothing may be in flight any more
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  // False when the system has no memory for it or will not pin it.
  [[nodiscard]] bool try_commit(Range range);
  void decommit(Range range);

  [[nodiscard]] std::byte* address(Bytes offset) const { return pages_.begin() + offset.count; }

  // Calls use(piece) for the parts of a committed range, each within one slab. No slab changes meanwhile.
  template <class Use>
  void for_each_piece(Range range, Use use) const {
    const std::shared_lock lock(mutex_);
    while (!range.empty()) {
      const Range piece{range.begin, std::min(range.end, slab_at(range.begin).end)};
      use(piece);
      range.begin = piece.end;
    }
  }

 private:
  [[nodiscard]] Range slab_at(Bytes offset) const;
  [[nodiscard]] bool try_touch(Range range);
  [[nodiscard]] bool try_register(Range range);
  [[nodiscard]] bool try_register_slabs(Range range);
  void split(Range slab, Range leaving);

  Bytes granule_, slab_;
  int touch_threads_;
  MappedArena pages_;
  mutable std::shared_mutex mutex_;
  std::map<Bytes, Bytes> slabs_;  // begin -> end
};

}  // namespace spillway
