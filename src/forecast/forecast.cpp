#include "forecast/forecast.h"

#include <algorithm>
#include <utility>

#include "liveness/curve.h"

namespace spillway {

namespace {

constexpr OpPlace kEarly = 256;       // ops: a batch of images is cut to size and put together in that
constexpr double kMostBeyond = 1.0;   // twice the largest seen, half the smallest
constexpr std::uint32_t kEnoughTests = 4;
constexpr double kSurer = 1.5;        // times what was missing at most

double bytes_of(const StepFigures& figures) {
  double bytes = 0;
  for (const Bytes size : figures.sizes) bytes += static_cast<double>(size.count);
  return bytes;
}

}  // namespace

StepKind::StepKind(const Liveness& step, StepShape shape) : model_(std::make_shared<const Liveness>(step)), shape_(std::move(shape)), paces_(step.op_count()) {
  for (std::uint32_t number = 0; number < shape_.storages.size(); ++number) {
    const StoragePlace storage = shape_.storages[number];
    const OpPlace op = step.accesses_of(storage)[0].op;
    if (step.storages()[storage].before || op >= kEarly) continue;
    marks_at_.push_back(number);
    marks_.push_back({.op = op, .storage = storage});
  }
}

// Storages first, then what ops need; then what ops take for themselves, as long as it is the same ops that do.
std::vector<std::int64_t> StepKind::values_of(const Liveness& step, const StepShape& shape) const {
  std::vector<std::int64_t> values;
  values.reserve(shape.storages.size() + 2 * step.op_count() + shape_.takings.size());
  for (const StoragePlace storage : shape.storages) values.push_back(step.storages()[storage].size.count);
  for (const LiveOp& op : step.ops()) values.push_back(op.transient.count), values.push_back(op.workspace.count);
  const bool same = shape.taking_ops == shape_.taking_ops;
  const Liveness& told = same ? step : *model_;
  for (const StoragePlace storage : same ? shape.takings : shape_.takings) values.push_back(told.storages()[storage].size.count);
  return values;
}

std::vector<double> StepKind::marks_of(const Liveness& step, const StepShape& shape) const {
  std::vector<double> marks;
  for (const std::uint32_t number : marks_at_) marks.push_back(static_cast<double>(step.storages()[shape.storages[number]].size.count));
  return marks;
}

void StepKind::observe(const Liveness& step, const StepShape& shape) {
  const Signature at = signature(step, shape);
  const bool is_new = columns_.observed() > 0 && distance(at) > 0;  // one that was seen before foretells itself
  if (const auto told = is_new ? predict(at, /*times=*/false) : std::nullopt) test(step, *told);
  columns_.observe(values_of(step, shape), marks_of(step, shape));
  for (OpPlace op = 0; op < step.op_count(); ++op) {
    double touched = 0;
    for (const Access& access : step.accesses_at(op)) touched += static_cast<double>(step.storages()[access.storage].size.count);
    paces_[op].observe(touched, static_cast<double>(step.ops()[op].duration.count));
  }
}

OpPlace StepKind::known_after() const {
  OpPlace last = 0;
  for (const std::uint32_t mark : coordinates()) last = std::max(last, marks_[mark].op + 1);
  return last;
}

Signature StepKind::signature(const Liveness& step, const StepShape& shape) const {
  return columns_.signature(marks_of(step, shape));
}

std::optional<StepKind::Prediction> StepKind::predict(std::span<const double> signature, bool times) const {
  if (columns_.observed() < 2 || columns_.beyond(signature) > kMostBeyond) return std::nullopt;
  const Columns::Prediction found = columns_.predict(signature);
  Prediction told;
  StepFigures& figures = told.figures;
  figures.sizes.reserve(model_->storage_count());
  for (const LiveStorage& storage : model_->storages()) figures.sizes.push_back(storage.size);
  std::size_t at = 0;
  for (const StoragePlace storage : shape_.storages) figures.sizes[storage] = {found.values[at++]};
  figures.ops.resize(model_->op_count());
  for (StepFigures::OpFigures& op : figures.ops) op.transient = {found.values[at++]}, op.workspace = {found.values[at++]};
  for (const StoragePlace storage : shape_.takings) figures.sizes[storage] = {found.values[at++]};
  if (times) set_times(figures);
  told.margin = tested_margin(margin_of(found.errors), figures, found.beyond);
  return told;
}

// Where much is there: elsewhere there is room for what was not foreseen.
void StepKind::test(const Liveness& step, const Prediction& told) {
  Liveness foreseen = *model_;
  foreseen.set_figures(told.figures);
  const LiveCurve is = live_curve(step), was_told = live_curve(foreseen);
  Bytes missing;
  for (OpPlace op = 0; op < step.op_count(); ++op) {
    if (is.during[op] > is.peak / 2) missing = std::max(missing, is.during[op] - was_told.during[op]);
  }
  missing_[tests_++ % kTests] = static_cast<double>(missing.count) / std::max(bytes_of(told.figures), 1.0);
}

// Each storage's own worst error, all at once, is far more than a step is ever wrong by.
Bytes StepKind::tested_margin(Bytes worst, const StepFigures& figures, double beyond) const {
  if (tests_ < kEnoughTests) return worst;
  const double part = std::ranges::max(missing_) * kSurer * (1 + beyond) * (1 + beyond);
  return std::min(worst, Bytes{static_cast<std::int64_t>(part * bytes_of(figures))});
}

void StepKind::set_times(StepFigures& figures) const {
  for (OpPlace op = 0; op < model_->op_count(); ++op) {
    double touched = 0;
    for (const Access& access : model_->accesses_at(op)) touched += static_cast<double>(figures.sizes[access.storage].count);
    figures.ops[op].duration = {static_cast<std::int64_t>(paces_[op].predict(touched))};
  }
}

// The most that all storages there and the op's own needs may be wrong by together.
Bytes StepKind::margin_of(std::span<const std::int64_t> errors) const {
  if (errors.empty()) return 0_B;
  std::vector<std::int64_t> change(model_->op_count() + 1);
  std::size_t at = 0;
  for (const StoragePlace place : shape_.storages) {
    const LiveStorage& storage = model_->storages()[place];
    change[storage.birth] += errors[at];
    change[storage.death] -= errors[at++];
  }
  std::int64_t live = 0, most = 0;
  for (OpPlace op = 0; op < model_->op_count(); ++op, at += 2) {
    live += change[op];
    most = std::max(most, live + errors[at]);
  }
  return {most};
}

std::shared_ptr<const StepKind> Forecast::observe(const Liveness& step, std::span<const std::uint64_t> keys) {
  StepShape shape = shape_of(step, keys);
  const auto known = std::ranges::find(kinds_, shape.key, [](const auto& kind) { return kind->shape().key; });
  auto kind = known == kinds_.end() ? std::make_shared<StepKind>(step, shape) : std::make_shared<StepKind>(**known);
  kind->observe(step, shape);
  if (known != kinds_.end()) return *known = std::move(kind);
  if (kinds_.size() == kMostKinds) kinds_.erase(std::ranges::min_element(kinds_, {}, [](const auto& one) { return one->observed(); }));
  return kinds_.emplace_back(std::move(kind));
}

const StepKind* Forecast::find(std::uint64_t shape) const {
  const auto known = std::ranges::find(kinds_, shape, [](const auto& kind) { return kind->shape().key; });
  return known == kinds_.end() ? nullptr : known->get();
}

}  // namespace spillway
