// Addresses that memory has left while work enqueued before may still use it there: they are unmapped once that is done.
//
// Until then the memory is held by two mappings. Whoever gives it back has seen all its uses done, the old ones among them, so
// clearing what is done before a decommit leaves none that would hold it. Any thread; a stream table and a context must be there.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "device/cuda/card_arena.h"
#include "device/cuda/stream_table.h"

namespace spillway {

class OldAddresses {
 public:
  void add(std::span<const Range> ranges, std::span<const Tick> until);
  // Unmaps those nobody uses any more. `wanted`: those that overlap it are waited for.
  void clear(CardArena& memory, StreamTable& streams, std::optional<Range> wanted = {});
  // The card is at rest, or going.
  void clear_all(const CardArena& memory);

 private:
  struct Left {
    std::vector<Range> ranges;
    std::vector<Tick> until;
  };

  std::mutex mutex_;
  std::vector<Left> left_;
};

}  // namespace spillway
