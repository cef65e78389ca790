// What a card makes of costs and of a recorded step's times.
#pragma once

#include "device/fake/card.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace spillway {

// What plans reckon with on this card.
[[nodiscard]] Costs costs_of(const Card& card);

// The trace with its ops as long as they would take on `to`, had they been recorded on `from`. Matrix products and
// convolutions go by the cards' 16-bit rates, whatever moves bytes, lean rebuilds too, by their memory's, and never below what a launch takes:
// shapes and types are not in a trace, so this is the order of magnitude, not a measurement.
[[nodiscard]] Trace scale_times(Trace trace, const Card& from, const Card& to);

}  // namespace spillway
