#include "forecast/columns.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"

namespace spillway {

namespace {

constexpr std::size_t kKept = 24;            // samples
constexpr std::size_t kMostCandidates = 48;  // for coordinates
constexpr std::size_t kMostJudged = 16;      // columns by which coordinates are chosen
constexpr double kExplained = 1e-6;          // of the bytes that vary: good enough
constexpr double kWorthACoordinate = 0.5;    // of what is unexplained without it

// Whether one is the other times a constant.
bool is_multiple(std::span<const double> a, std::span<const double> b) {
  for (std::size_t i = 1; i < a.size(); ++i) {
    if (a[i] * b[0] != b[i] * a[0]) return false;
  }
  return true;
}

std::int64_t to_bytes(double value) { return value > 0 ? std::llround(value) : 0; }

}  // namespace

void Columns::start(std::span<const std::int64_t> values) {
  std::map<std::int64_t, std::uint32_t> known;
  for (const std::int64_t value : values) {
    const auto [found, is_new] = known.try_emplace(value, static_cast<std::uint32_t>(columns_.size()));
    if (is_new) columns_.push_back({});
    ++columns_[found->second].places;
    column_of_.push_back(found->second);
  }
}

// A place whose number is not that of the first in its column goes to another one, with those like it.
void Columns::split(std::span<const std::int64_t> values) {
  std::vector<std::int64_t> first(columns_.size(), -1);
  std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t> split;
  for (std::size_t place = 0; place < values.size(); ++place) {
    const std::uint32_t column = column_of_[place];
    if (first[column] < 0) first[column] = values[place];
    if (first[column] == values[place]) continue;
    const auto [found, is_new] = split.try_emplace({column, values[place]}, static_cast<std::uint32_t>(columns_.size()));
    if (is_new) {
      Column copy = columns_[column];
      copy.places = 0;
      columns_.push_back(std::move(copy));
    }
    --columns_[column].places;
    ++columns_[found->second].places;
    column_of_[place] = found->second;
  }
}

// The same marks again replace what was seen at them; otherwise the oldest goes.
std::size_t Columns::place_of_sample(std::span<const double> marks) {
  const auto known = std::ranges::find_if(samples_, [&](const Sample& sample) { return std::ranges::equal(sample.marks, marks); });
  if (known != samples_.end()) return static_cast<std::size_t>(known - samples_.begin());
  if (samples_.size() < kKept) return samples_.size();
  return std::exchange(next_, (next_ + 1) % kKept);
}

void Columns::observe(std::span<const std::int64_t> values, std::span<const double> marks) {
  if (column_of_.empty()) start(values);
  SPILLWAY_ENSURE(values.size() == column_of_.size(), "steps of a kind have the same places");
  split(values);
  const std::size_t at = place_of_sample(marks);
  if (at == samples_.size()) {
    samples_.emplace_back();
    for (Column& column : columns_) column.seen.push_back(0);
  }
  samples_[at].marks.assign(marks.begin(), marks.end());
  samples_[at].at = signature(marks);
  basis_.evaluate(samples_[at].at, samples_[at].basis);
  for (std::size_t place = 0; place < values.size(); ++place) columns_[column_of_[place]].seen[at] = static_cast<double>(values[place]);
  ++observed_;
  for (Column& column : columns_) column.varies |= column.seen[at] != column.seen[0] || column.seen.back() != column.seen[0];
  // The choice is made anew ever more rarely.
  if (std::has_single_bit(observed_) && samples_.size() > 1) choose_coordinates();
  fit_again(/*all=*/false);
}

void Columns::fit_again(bool all) {
  std::vector<std::vector<double>> rows;
  for (const Sample& sample : samples_) rows.push_back(sample.basis);
  for (Column& column : columns_) {
    const auto misses = [&](std::size_t at) { return std::abs(column.fit.best.evaluate(rows[at]) - column.seen[at]) > 0.5; };
    bool stale = all || column.fit.best.count == 0 || !column.fit.is_exact();
    for (std::size_t at = 0; at < rows.size() && !stale; ++at) stale = misses(at);
    if (stale) column.fit = fit_polynomial(rows, column.seen);
  }
}

void Columns::rebase() {
  basis_ = Basis(coordinates_.size());
  for (Sample& sample : samples_) {
    sample.at = signature(sample.marks);
    basis_.evaluate(sample.at, sample.basis);
  }
}

std::vector<std::uint32_t> Columns::candidates() const {
  std::vector<std::uint32_t> found;
  std::vector<std::vector<double>> seen;
  for (std::uint32_t mark = 0; mark < samples_[0].marks.size() && found.size() < kMostCandidates; ++mark) {
    std::vector<double> column;
    for (const Sample& sample : samples_) column.push_back(sample.marks[mark]);
    const bool varies = std::ranges::any_of(column, [&](double value) { return value != column[0]; });
    const bool positive = std::ranges::all_of(column, [](double value) { return value > 0; });
    if (!varies || !positive || std::ranges::any_of(seen, [&](const auto& other) { return is_multiple(column, other); })) continue;
    found.push_back(mark);
    seen.push_back(std::move(column));
  }
  return found;
}

void Columns::choose_coordinates() {
  if (unexplained(coordinates_) <= kExplained) return;
  const std::vector<std::uint32_t> all = candidates();
  std::vector<std::uint32_t> chosen;
  double left = unexplained(chosen);
  while (chosen.size() < kMostCoordinates && left > kExplained) {
    std::optional<std::uint32_t> best;
    double least = left;
    for (const std::uint32_t mark : all) {
      if (std::ranges::find(chosen, mark) != chosen.end()) continue;
      std::vector<std::uint32_t> with = chosen;
      with.push_back(mark);
      const double error = unexplained(with);
      if (error < least * (best ? 0.9 : kWorthACoordinate)) least = error, best = mark;
    }
    if (!best) break;
    chosen.push_back(*best);
    left = least;
  }
  if (chosen == coordinates_) return;
  coordinates_ = chosen;
  rebase();
  fit_again(/*all=*/true);
}

double Columns::unexplained(const std::vector<std::uint32_t>& coordinates) const {
  const Basis basis(coordinates.size());
  std::vector<std::vector<double>> rows;
  for (const Sample& sample : samples_) {
    Signature at;
    for (const std::uint32_t mark : coordinates) at.push_back(sample.marks[mark]);
    basis.evaluate(at, rows.emplace_back());
  }
  std::vector<std::pair<double, const Column*>> judged;
  for (const Column& column : columns_) {
    if (!column.varies) continue;
    const auto [least, most] = std::ranges::minmax(column.seen);
    judged.emplace_back((most - least) * column.places, &column);
  }
  std::ranges::stable_sort(judged, std::greater{}, &std::pair<double, const Column*>::first);
  if (judged.size() > kMostJudged) judged.resize(kMostJudged);
  double wrong = 0, whole = 0;
  for (const auto& [weight, column] : judged) {
    const auto [least, most] = std::ranges::minmax(column->seen);
    wrong += weight * std::min(fit_polynomial(rows, column->seen).error / (most - least), 2.0);
    whole += weight;
  }
  return whole > 0 ? wrong / whole : 0;
}

Signature Columns::signature(std::span<const double> marks) const {
  Signature at;
  for (const std::uint32_t mark : coordinates_) at.push_back(marks[mark]);
  return at;
}

std::pair<double, double> Columns::range(std::size_t coordinate) const {
  const auto of = [coordinate](const Sample& sample) { return sample.at[coordinate]; };
  const auto [least, most] = std::ranges::minmax(samples_, {}, of);
  return {of(least), of(most)};
}

double Columns::beyond(std::span<const double> signature) const {
  double worst = 0;
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const auto [least, most] = range(i);
    worst = std::max({worst, signature[i] / most - 1, least / signature[i] - 1});
  }
  return worst;
}

double Columns::distance(std::span<const double> signature) const {
  double nearest = HUGE_VAL;
  for (const Sample& sample : samples_) {
    double worst = 0;
    for (std::size_t i = 0; i < signature.size(); ++i) worst = std::max(worst, std::abs(signature[i] / sample.at[i] - 1));
    nearest = std::min(nearest, worst);
  }
  return nearest;
}

Columns::Prediction Columns::predict(std::span<const double> signature) const {
  Prediction found{.values = std::vector<std::int64_t>(column_of_.size()), .errors = {}, .beyond = beyond(signature)};
  std::vector<double> basis;
  basis_.evaluate(signature, basis);
  std::vector<std::int64_t> values, errors;
  bool unsure = false;
  for (const Column& column : columns_) {
    values.push_back(to_bytes(column.fit.best.evaluate(basis)));
    errors.push_back(static_cast<std::int64_t>(std::ceil(std::min(column.fit.error_at(basis, found.beyond), 1e18))));
    unsure |= errors.back() > 0;
  }
  if (unsure) found.errors.resize(column_of_.size());
  for (std::size_t place = 0; place < column_of_.size(); ++place) {
    found.values[place] = values[column_of_[place]];
    if (unsure) found.errors[place] = errors[column_of_[place]];
  }
  return found;
}

}  // namespace spillway
