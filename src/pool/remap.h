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
};
[[nodiscard]] std::vector<FreeGranule> free_granules(const Space& space);

// As Pool::plan_remap; `room`: how far committed bytes may still grow.
[[nodiscard]] std::optional<Remap> plan_remap(const Space& space, Bytes size, Bytes room);
// As Pool::find_donors.
[[nodiscard]] std::optional<Remap> find_donors(const Space& space, Bytes size, Range keep);

}  // namespace spillway
