// A recorded step under another budget, policy or card: the real engine, driven over a simulated one.
//
// The step is repeated, so that policies that learn from a step have their chance: the first steps run as they come, the
// last one is the steady one. Same trace and options, same result, to the byte.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/fake/card.h"
#include "device/fake/fake_device.h"
#include "engine/engine.h"
#include "sim/player.h"
#include "trace/trace.h"

namespace spillway {

struct SimOptions {
  Card card;
  std::optional<Bytes> budget;  // none: only watch
  std::string policy = "hybrid";
  int steps = 12;
  int plan_rounds = 1;          // of improvement after the first plan
  bool places = true;           // as EngineOptions has it
  std::string trace;            // where to write the trace of the simulated run; empty: nowhere
  double slow_clock = 0;  // not 0: ops are measured as on a card, and before there is a plan this much too long
  // Before a step, which are counted from 0: for what changes under way.
  std::function<void(int step, FakeDevice& device)> before_step = {};
};

// One step. The times add up to `time`: `beside_copies` is what kernels lost to copies beside them, `host` what the card
// waited for the host.
struct SimStep {
  Nanos time, kernels, rebuilds, fetch, room, beside_copies, host;
  Bytes moved_out, moved_in, left_clean, dropped, rebuilt;
  Bytes peak_live;
  std::int64_t evictions = 0, rebuilt_ops = 0;
  std::int64_t remaps = 0;     // free memory put together, or taken to where a block belongs
  std::int64_t surprises = 0;  // in a planned step: room that had to be made beside the plan
  std::int64_t timed_ops = 0;  // whose time on the card was taken; none without a slow clock
  bool planned = false;
  Prediction predicted;  // where planned
};

struct SimResult {
  std::vector<SimStep> steps;  // those that were played to their end
  EngineStats stats;           // of the whole run
  Nanos plain_time;            // of the step's kernels
  Bytes plain_peak, floor;     // of the step
  std::uint32_t ops = 0;       // in the step
  std::optional<Unfit> unfit;
};

// The last whole step of the trace. Throws InputError when it holds none, or for an unknown policy.
[[nodiscard]] SimResult simulate(const Trace& trace, const SimOptions& options);

// A budget that holds the steps, found by trying ever larger ones where that of the options did not; to_text() tells it without
// a loss. None: the card has no such.
[[nodiscard]] std::optional<Bytes> find_enough(const Trace& trace, SimOptions options, const Unfit& unfit);

// What an engine on this card is given. Throws InputError for an unknown policy.
[[nodiscard]] EngineOptions engine_options(const SimOptions& options);

}  // namespace spillway
