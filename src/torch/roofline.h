// What an operator takes on a device, from its shapes alone: good enough to choose between moving its result and running it
// again before anything was measured, and where measuring would need an event before and after every operator.
//
//   time = (launch + max(bytes read and written / memory rate, floating-point operations / arithmetic rate)) x correction
//
// The correction is what measured operators of the same kind took beside that. Belongs to the engine's lock.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "forecast/correction.h"
#include "plan/policies.h"

namespace spillway {

class TorchRecipe;

// Of one machine. An NVIDIA H200's where nobody measured: 4.8 TB/s of memory of which kernels see about 3.5; dense arithmetic
// at what large matrix products reach.
struct Rates {
  double bytes_per_nano = 3500;
  double half_flops_per_nano = 550e3, single_flops_per_nano = 45e3;
  double launch_nanos = 5000;
  // Pinned copies on an otherwise idle link, and the nanoseconds that kernels lose per byte copied beside them: 0.84 ms for every
  // GiB out and back, most of it on the way back (NVIDIA H200, whole steps; rates.py measures 0.6 to 0.8: docs/results.md).
  double out_bytes_per_nano = 55, in_bytes_per_nano = 55;
  double out_price = 0.00016, in_price = 0.00063;
};

// What plans reckon with on a card.
[[nodiscard]] Costs card_costs(const Rates& rates);
// A copy the reaction asks for, out and back, for a byte.
[[nodiscard]] double card_move_nanos(const Costs& costs);

class Roofline {
 public:
  explicit Roofline(const Rates& rates) : rates_(rates) {}
  void set_rates(const Rates& rates) { rates_ = rates; }

  [[nodiscard]] Nanos estimate(const TorchRecipe& recipe, Bytes made) const;
  // Without the correction: of something else than the operator itself.
  [[nodiscard]] Nanos estimate_pass(const TorchRecipe& recipe, Bytes made) const;
  // An operator is being measured; null: one that has no recipe.
  void expect(const TorchRecipe* recipe, Bytes made);
  [[nodiscard]] std::vector<Correction::Expected> take_expected() { return correction_.take_expected(); }
  void correct(std::span<const Correction::Expected> expected, std::span<const Nanos> measured) { correction_.correct(expected, measured); }

 private:
  Rates rates_;
  Correction correction_;
};

}  // namespace spillway
