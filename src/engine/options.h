// How an engine is set up, and the same in words, as a trace keeps it for whoever plays the run again.
//
//   parse_options(to_words(options)) decides like options, once it is told which plans to follow
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/tick.h"
#include "base/units.h"
#include "engine/policy.h"
#include "plan/plan.h"
#include "plan/policies.h"

namespace spillway {

enum class Leave : std::uint8_t { move, replay, cheaper };

struct EngineOptions {
  std::optional<Bytes> budget;  // empty: watch only
  Bytes address_space;
  Bytes granule = 2_MiB;
  Bytes alignment = 512_B;
  // Storages below this stay. Low, because whoever stays outside the pool's slabs cuts the budget to pieces: MobileNet
  // at 1.1 times its floor does not train with 4 KiB.
  Bytes smallest = 512_B;
  Bytes host_limit, file_limit;
  Bytes host_granule;           // the host tier grows in steps of this; zero: the device's granule
  ReactivePolicy policy = ReactivePolicy::dtr;
  Leave leave = Leave::cheaper;
  double move_nanos_per_byte = 1.0;  // out and back, for the choice between move and replay
  const PlanPolicy* plans = nullptr;  // steps that repeat are planned so; what a plan leaves open is up to the policy
  int plan_rounds = 12;         // of improvement in the background
  bool places = true;           // planned steps take their blocks at places found beforehand
  bool plans_at_once = false;   // by the thread that ends the step, for runs that must come out the same every time
  bool judges_plans = true;     // by how long their steps take; otherwise the clock has no say in whether one is followed
  Costs costs;                  // what plans reckon with
  bool poison = false;          // overwrite what has left
  bool minutes = false;         // a trace from the start tells what the engine was asked, too: see minutes.h
  bool prompted = false;        // what to go by is told from outside: in a run that is played again
  std::function<bool(Tick)> is_done;  // asked instead of the device where a decision hangs on it: in a run that is played again
};

// How storages leave by this policy.
[[nodiscard]] inline Leave leave_of(ReactivePolicy policy) { return policy == ReactivePolicy::lru ? Leave::move : Leave::cheaper; }

// "budget=1048576 policy=lru ...": what decisions hang on. An option that is not set has no word, nor has what only plans need.
[[nodiscard]] std::string to_words(const EngineOptions& options);
// Throws InputError naming the word that is missing or not understood.
[[nodiscard]] EngineOptions parse_options(std::string_view words);

}  // namespace spillway
