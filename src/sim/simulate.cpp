#include "sim/simulate.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "device/granules.h"
#include "liveness/curve.h"
#include "liveness/floor.h"
#include "liveness/pieces.h"
#include "plan/outlook.h"
#include "sim/card_times.h"

namespace spillway {

namespace {

// Of a budget that does not do: the next one to try is larger by this part of it, the one after that by twice as much. What an
// op lacks says little: it may be a hole of that length, and there is one as soon as others lie differently.
constexpr std::int64_t kFirstStep = 64;

// A text has three digits, so it is off by half a percent at most. Never down: what is told is what was tried.
Bytes as_told(Bytes bytes) { return parse_bytes(to_text(bytes + bytes / 200 + 1_B)); }

// One step's part of counts that only grow.
class Sampler {
 public:
  explicit Sampler(Player& player) : player_(player) {}

  SimStep step() {
    const EngineStats now = player_.engine().stats();
    const Meter& meter = player_.meter();
    SimStep step{.time = {},
                 .kernels = since(Spent::kernels, meter),
                 .rebuilds = since(Spent::rebuilds, meter),
                 .fetch = since(Spent::fetch, meter),
                 .room = since(Spent::room, meter),
                 .beside_copies = since(Spent::beside_copies, meter),
                 .host = since(Spent::host, meter),
                 .moved_out = now.moved_out - before_.moved_out,
                 .moved_in = now.moved_in - before_.moved_in,
                 .left_clean = now.left_clean - before_.left_clean,
                 .dropped = now.dropped - before_.dropped,
                 .rebuilt = player_.rebuilt() - rebuilt_,
                 .peak_live = player_.engine().recent_peaks().live,
                 .evictions = now.evictions - before_.evictions,
                 .rebuilt_ops = now.recomputed_ops - before_.recomputed_ops,
                 .remaps = now.remaps - before_.remaps,
                 .surprises = now.surprises - before_.surprises,
                 .timed_ops = player_.timed_ops() - timed_ops_,
                 .planned = now.planned_steps > before_.planned_steps,
                 .predicted = before_.predicted.value_or(Prediction{})};
    player_.engine().reset_recent_peaks();
    step.time = step.kernels + step.rebuilds + step.fetch + step.room + step.beside_copies + step.host;
    before_ = now;
    rebuilt_ = player_.rebuilt();
    timed_ops_ = player_.timed_ops();
    return step;
  }

 private:
  Nanos since(Spent kind, const Meter& meter) {
    Nanos& before = spent_[static_cast<std::size_t>(kind)];
    const Nanos spent = meter.spent(kind) - before;
    before += spent;
    return spent;
  }

  Player& player_;
  EngineStats before_;
  Bytes rebuilt_;
  std::int64_t timed_ops_ = 0;
  std::array<Nanos, kSpentKinds> spent_{};
};

}  // namespace

EngineOptions engine_options(const SimOptions& options) {
  EngineOptions engine;
  engine.plans = find_plan_policy(options.policy);
  const auto reactive = engine.plans != nullptr ? ReactivePolicy::dtr : find_policy(options.policy);
  if (!reactive) throw InputError("unknown policy '" + options.policy + "': " + known_policies() + " are there");
  engine.policy = *reactive;
  engine.leave = leave_of(*reactive);
  engine.budget = options.budget;
  engine.granule = card_granule(options.budget);
  engine.address_space = round_up(options.card.memory * 8, engine.granule);
  engine.host_limit = options.card.host_memory * 8 / 10;
  engine.costs = costs_of(options.card);
  engine.move_nanos_per_byte = engine.costs.out_nanos_per_byte + engine.costs.in_nanos_per_byte;
  engine.plan_rounds = options.plan_rounds;
  engine.plans_at_once = true;
  engine.places = options.places;
  return engine;
}

SimResult simulate(const Trace& recorded, const SimOptions& options) {
  const EngineOptions engine = engine_options(options);
  const Trace trace = options.budget ? cut_lists(recorded, *options.budget / kListPieces) : recorded;
  const auto whole = find_steady_step(trace);
  if (!whole) throw InputError("the trace holds no whole step");
  const Liveness step(trace, *whole);
  const Score score = read_score(trace, *whole, step);
  FakeDevice device(options.card);
  Player player(device, engine, score, step);
  player.set_slow_clock(options.slow_clock);
  if (!options.trace.empty()) player.open_trace(options.trace);
  Sampler sampler(player);
  SimResult result{.steps = {}, .stats = {}, .plain_time = step.starts().back(), .plain_peak = live_curve(step).peak,
                   .floor = find_floor(step, {.smallest = engine.smallest}).bytes, .ops = step.op_count(), .unfit = {}};
  for (int i = 0; i < options.steps; ++i) {
    if (options.before_step) options.before_step(i, device);
    player.play_step();
    if (player.unfit()) break;
    result.steps.push_back(sampler.step());
  }
  result.stats = player.engine().stats();
  result.unfit = player.unfit();
  // What the first op that failed lacks is not all: the neediest one may come after it.
  if (result.unfit) result.unfit->lacks = std::max(result.unfit->lacks, result.floor - options.budget.value_or(options.card.memory));
  player.close_trace();
  return result;
}

std::optional<Bytes> find_enough(const Trace& recorded, SimOptions options, const Unfit& unfit) {
  options.trace.clear();
  Bytes next = options.budget.value_or(options.card.memory) + unfit.lacks;
  for (Bytes step = std::max(next / kFirstStep, card_granule(next));; step = step * 2) {
    next = as_told(next);
    if (next > options.card.memory) return std::nullopt;
    options.budget = next;
    if (!simulate(recorded, options).unfit) return next;
    next += step;
  }
}

}  // namespace spillway
