// Which parts of one tier are reserved and committed, and the rules every device holds its user to.
//
// A device asks the ledger before it acts and tells it afterwards: what breaks a rule throws InvariantError here, so
// that all devices refuse the same things. Bookkeeping only, exact to the byte:
//
//   committed() == sum of the lengths of the committed ranges <= limit(), when there is a limit
//
// Not locked: the device holds the lock.
#pragma once

#include <map>
#include <span>

#include "base/range.h"
#include "device/device.h"

namespace spillway {

class Ledger {
 public:
  // `limit` zero: as much as the address space has.
  explicit Ledger(Bytes granule, Bytes limit = {}) : granule_(granule), limit_(limit) {}

  void reserve(Bytes size);

  // False when the limit leaves no room for it. Both throw when the range may not be committed or decommitted.
  [[nodiscard]] bool try_commit(Range range);
  void decommit(Range range);
  // The rule of decommit alone: whole granules, all of them committed.
  void check_decommit(Range range) const;
  // As many bytes are committed at `to` instead of `from`. Throws, and changes nothing, where the ranges may not be.
  void move(std::span<const Range> to, std::span<const Range> from);

  [[nodiscard]] bool holds(Range range) const;
  [[nodiscard]] Bytes committed() const { return committed_; }
  [[nodiscard]] Bytes reserved() const { return reserved_; }
  [[nodiscard]] Bytes limit() const { return limit_; }

 private:
  void check_granules(Range range) const;
  [[nodiscard]] bool touches(Range range) const;

  Bytes granule_, limit_;
  Bytes reserved_, committed_;
  std::map<Bytes, Bytes> held_;  // begin -> end; neither overlapping nor adjacent
};

// The rules of a copy of more than zero bytes. `to_tier` and `from_tier` are the ledgers of the two places.
void check_copy(const Ledger& to_tier, Place to, const Ledger& from_tier, Place from, Bytes size);

}  // namespace spillway
