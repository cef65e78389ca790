#include "torch/stats_json.h"

#include <torch/version.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace spillway {

namespace {

double seconds(Nanos time) { return static_cast<double>(time.count) * 1e-9; }

nlohmann::ordered_json plan_json(const Prediction& predicted) {
  return {{"step_seconds", seconds(predicted.time)}, {"plain_step_seconds", seconds(predicted.plain_time)},
          {"stall_seconds", seconds(predicted.stall)}, {"rebuild_seconds", seconds(predicted.rebuild)},
          {"peak_bytes", predicted.peak.count}, {"over_bytes", predicted.over.count},
          {"moved_bytes", predicted.moved.count}, {"rebuilt_bytes", predicted.rebuilt.count}};
}

// Null while no plan is followed.
nlohmann::ordered_json followed_json(const EngineStats& stats) {
  return stats.predicted ? plan_json(*stats.predicted) : nullptr;
}

// Null before there was one.
nlohmann::ordered_json first_json(const EngineStats& stats) {
  if (!stats.first_plan) return nullptr;
  nlohmann::ordered_json json = plan_json(stats.first_plan->predicted);
  json["took_seconds"] = seconds(stats.first_plan->took);
  return json;
}

// Each byte once: the parts add up to the floor. An op may give away an output that it did not make.
nlohmann::ordered_json floor_json(const FloorOp& op) {
  const Bytes made = std::max(op.transient, 0_B), outputs = std::min(op.outputs, made);
  return {{"name", op.name}, {"input_bytes", op.inputs.count}, {"output_bytes", outputs.count},
          {"transient_bytes", (made - outputs).count}, {"cannot_leave_bytes", op.cannot_leave.count}};
}

}  // namespace

std::string stats_json(Adapter& adapter) {
  const EngineStats stats = adapter.engine().stats();
  const EngineOptions& options = adapter.engine().options();
  nlohmann::ordered_json json;
  json["budget_bytes"] = options.budget ? nlohmann::ordered_json(options.budget->count) : nlohmann::ordered_json(nullptr);
  json["largest_budget_bytes"] = options.budget ? nlohmann::ordered_json(stats.most_budget.count) : nlohmann::ordered_json(nullptr);
  json["peak_bytes"] = stats.peak_reserved.count;
  json["peak_live_bytes"] = stats.peak_live.count;
  json["plain_peak_bytes"] = stats.plain_peak.count;
  json["floor_bytes"] = stats.floor.count;
  json["floor_op"] = floor_json(stats.floor_op);
  json["steps"] = stats.steps;
  json["ops"] = stats.ops;
  json["moved_out_bytes"] = stats.moved_out.count;
  json["moved_in_bytes"] = stats.moved_in.count;
  json["left_clean_bytes"] = stats.left_clean.count;
  json["dropped_bytes"] = stats.dropped.count;
  json["recomputed_ops"] = stats.recomputed_ops;
  json["lean_rebuilds"] = stats.lean_rebuilds;
  json["recompute_seconds"] = seconds(stats.recompute);
  json["stall_seconds"] = {{"fetch", seconds(stats.stalls.fetch)}, {"room", seconds(stats.stalls.room)},
                           {"host_room", seconds(stats.stalls.host_room)}, {"file", seconds(stats.stalls.file)}};
  json["violations"] = stats.violations;
  json["remaps"] = stats.remaps;
  json["planned_steps"] = stats.planned_steps;
  json["seeks_plans"] = stats.seeks;
  json["plan_surprises"] = stats.surprises;
  json["varying_steps"] = stats.varying_steps;
  json["foreseen_steps"] = stats.foreseen_steps;
  json["reused_plans"] = stats.reused_plans;
  json["extended_plans"] = stats.extended_plans;
  json["fitting_steps"] = stats.fitting_steps;
  json["planning_seconds"] = seconds(stats.planning);
  json["placed_steps"] = stats.placed_steps;
  json["misplaced_blocks"] = stats.misplaced;
  json["plan"] = followed_json(stats);
  json["first_plan"] = first_json(stats);
  json["cache"] = {{"warm", stats.warm_start}, {"first_step_planned_ops", stats.first_planned_ops}, {"problem", stats.store_problem.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(stats.store_problem)}};
  json["live_bytes"] = stats.live.count;
  json["reserved_bytes"] = stats.reserved.count;
  json["device"] = adapter.options().where.str();
  json["policy"] = std::string(adapter.engine().policy_name());
  json["torch"] = TORCH_VERSION;
  const auto lock = adapter.engine().lock();
  if (!adapter.replayed.empty()) json["replayed_operators"] = adapter.replayed;  // test mode only
  return json.dump();
}

}  // namespace spillway
