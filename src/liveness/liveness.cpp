#include "liveness/liveness.h"

#include <algorithm>

#include "base/error.h"
#include "liveness/walk.h"

namespace spillway {
namespace {

StepWalk walk(const Trace& trace, const WholeStep& step) {
  SPILLWAY_ENSURE(step.end <= trace.events.size() && step.begin < step.end, "the step is one of this trace");
  StepWalk walk(step);
  for (std::size_t at = 0; at <= step.begin; ++at) walk.before(trace.events[at]);
  walk.begin();
  for (std::size_t at = step.begin + 1; at < step.end; ++at) walk.inside(trace.events[at], trace);
  walk.end();
  for (std::size_t at = step.end; at < trace.events.size(); ++at)
    if (const auto* role = std::get_if<StorageRole>(&trace.events[at])) walk.learn(*role);
  return walk;
}

// Turns counts, shifted by one, into the places where each part begins.
void add_up(std::vector<std::uint32_t>& counts) {
  for (std::size_t i = 1; i < counts.size(); ++i) counts[i] += counts[i - 1];
}

// What it takes to make it again changes alike.
void set_duration(LiveOp& op, Nanos duration) {
  if (op.again > 0_ns && op.duration > 0_ns) op.again = Nanos{std::max<std::int64_t>(op.again.count * duration.count / op.duration.count, 1)};
  op.duration = duration;
}

}  // namespace

Liveness::Liveness(const Trace& trace, const WholeStep& step) {
  StepWalk found = walk(trace, step);
  ops_ = std::move(found.ops);
  storages_ = std::move(found.storages);
  by_op_ = std::move(found.accesses);
  op_begin_ = std::move(found.op_begin);
  index_by_storage();
  sum_times();
}

// A counting sort: accesses are in the order of ops already, and stay so.
void Liveness::index_by_storage() {
  storage_begin_.assign(storages_.size() + 1, 0);
  writer_begin_.assign(storages_.size() + 1, 0);
  for (const Access& access : by_op_) {
    ++storage_begin_[access.storage + 1];
    writer_begin_[access.storage + 1] += access.writes;
  }
  add_up(storage_begin_);
  add_up(writer_begin_);
  by_storage_.resize(by_op_.size());
  writers_.resize(writer_begin_.back());
  std::vector<std::uint32_t> next(storage_begin_), next_writer(writer_begin_);
  for (const Access& access : by_op_) {
    by_storage_[next[access.storage]++] = access;
    if (access.writes) writers_[next_writer[access.storage]++] = access.op;
  }
}

void Liveness::set_figures(const StepFigures& figures) {
  SPILLWAY_ENSURE(figures.sizes.size() == storages_.size() && figures.ops.size() == ops_.size(), "the figures are those of this step");
  for (StoragePlace at = 0; at < storage_count(); ++at) storages_[at].size = figures.sizes[at];
  for (OpPlace at = 0; at < op_count(); ++at) {
    set_duration(ops_[at], figures.ops[at].duration);
    ops_[at].transient = figures.ops[at].transient;
    ops_[at].workspace = figures.ops[at].workspace;
    ops_[at].made = 0_B;
    for (const Access& access : accesses_at(at)) {
      if (access.makes) ops_[at].made += storages_[access.storage].size;
    }
  }
  sum_times();
}

void Liveness::sum_times() {
  starts_.clear();
  starts_.reserve(ops_.size() + 1);
  starts_.push_back({});
  for (const LiveOp& op : ops_) starts_.push_back(starts_.back() + op.duration);
}

Nanos Liveness::time_over(OpPlace begin, OpPlace end) const {
  const auto at = [&](OpPlace place) {
    return place < op_count() ? starts_[place] : starts_[op_count()] + starts_[place - op_count()];
  };
  return at(end) - at(begin);
}

}  // namespace spillway
