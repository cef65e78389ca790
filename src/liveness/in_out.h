// Liveness as SuperNeurons' paper has it: before and after each op the set of what is still needed.
//
// A storage is needed from its birth to its last access; one that goes on into the next step, to the step's end. So
// `freed_after` says where its bytes could go at the earliest, which may be well before the program lets go of it.
//
//   out(i) == in(i) + made by i - freed_after(i)        in(i + 1) == out(i) + born between i and i + 1
#pragma once

#include <span>
#include <vector>

#include "liveness/liveness.h"

namespace spillway {

class InOutSets {
 public:
  // Linear; each set below takes time in proportion to the storages of the step. `liveness` must outlive this.
  explicit InOutSets(const Liveness& liveness);

  // Ascending places.
  [[nodiscard]] std::vector<StoragePlace> in(OpPlace op) const;
  [[nodiscard]] std::vector<StoragePlace> out(OpPlace op) const;
  [[nodiscard]] std::span<const StoragePlace> freed_after(OpPlace op) const;
  // The end of the ops that need the storage: its last access + 1, or the end of the step.
  [[nodiscard]] OpPlace needed_until(StoragePlace storage) const { return until_[storage]; }

 private:
  const Liveness& liveness_;
  std::vector<OpPlace> until_, from_;  // needed before the ops [from_, until_)
  std::vector<StoragePlace> freed_;
  std::vector<std::uint32_t> freed_begin_;
};

}  // namespace spillway
