// Where storages lie whose addresses have left our sight: side by side, away from all others.
//
// They cannot move any more. Scattered, each would spoil the granules it begins and ends in, which no longer could be put
// together with others; side by side they spoil two in all. Books only: the addresses are the arena's to give.
//
// Belongs to the engine's lock.
#pragma once

#include <map>

#include "base/range.h"
#include "base/units.h"

namespace spillway {

class Apart {
 public:
  // Addresses from there on; 0: there are none.
  explicit Apart(Bytes from) : from_(from), low_(from) {}

  [[nodiscard]] bool is_there() const { return from_ > Bytes{}; }
  // The lowest place of the size that nobody has.
  [[nodiscard]] Range find(Bytes size) const;
  void took(Range range);
  // Of any block: nothing happens for one that lies elsewhere.
  void freed(Range range);

 private:
  Bytes from_;
  Bytes low_;                     // below it nobody finds a place
  std::map<Bytes, Bytes> taken_;  // begin -> end
};

}  // namespace spillway
