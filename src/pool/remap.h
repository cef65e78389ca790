// Moving memory instead of data: whole free granules leave where they are and come back where a run of addresses is
// long enough. Pure look-ups; Books::apply_remap and Books::trim change the books.
#pragma once

#include <optional>
#include <vector>

#include "pool/pool.h"
#include "pool/space.h"

namespace spillway {

// Every whole granule that is free, by address, with the number of last uses in it that are not done.
struct FreeGranule {
  Bytes begin;
  int waits = 0;
  int foreign = 0;           // of those: that stream `on` would have to wait for
  std::uint64_t latest = 0;  // of the foreign ones: a stream reaches its ticks in order
};
[[nodiscard]] std::vector<FreeGranule> free_granules(const Space& space, StreamId on = {});

// As Pool::plan_remap; `room`: how far committed bytes may still grow.
[[nodiscard]] std::optional<Remap> plan_remap(const Space& space, Bytes size, Bytes room, StreamId on);
// As Pool::find_donors.
[[nodiscard]] std::optional<Remap> find_donors(const Space& space, Bytes size, Range keep, StreamId on);

}  // namespace spillway
