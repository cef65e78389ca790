#include "engine/repertoire.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spillway {

namespace {

constexpr std::size_t kEnoughSamples = 12;  // of a kind; its fits are exact after two or three, its times settle later
constexpr std::size_t kMostScripts = 64;    // of a kind
constexpr std::size_t kMostKinds = 16;
constexpr double kCells = 16;               // that the range of sizes is cut into
constexpr double kFinest = 1.02, kCoarsest = 1.10;
constexpr double kEqual = 1e-9;

// How much larger each cell of the grid is than the one before, from the least and the most seen.
double grid_ratio(std::pair<double, double> range) {
  return std::clamp(std::pow(range.second / range.first, 1 / kCells), kFinest, kCoarsest);
}

}  // namespace

// --- learning -------------------------------------------------------------------------------------------------------

void Repertoire::observe(std::shared_ptr<const RecordedSteps> steps) {
  const auto whole = find_step(steps->trace, StepRecorder::kStep);
  if (!whole || whole->ops == 0) return;
  std::shared_ptr<StepKind> kind = forecast_.observe(Liveness(steps->trace, *whole), steps->shapes);
  varies_ |= !kind->coordinates().empty();
  const auto known = std::ranges::find(kinds_, kind, &Kind::forecast);
  if (known == kinds_.end()) add_kind(std::move(kind), std::move(steps));
}

void Repertoire::add_kind(std::shared_ptr<StepKind> forecast, std::shared_ptr<const RecordedSteps> steps) {
  if (kinds_.size() == kMostKinds) kinds_.erase(kinds_.begin());
  const std::vector<const Op*> ops = ops_of(steps->trace, StepRecorder::kStep);
  Kind kind{.forecast = std::move(forecast), .steps = std::move(steps), .marks = {}, .made = {}, .asked = {}};
  for (const StepKind::Mark& mark : kind.forecast->marks()) {
    const auto part = find_part(*ops[mark.op], kind.forecast->model().storages()[mark.storage].id);
    kind.marks.push_back(part ? MarkPart{mark.op, part->part, part->nth} : MarkPart{mark.op, Part::input, UINT16_MAX});
  }
  kinds_.push_back(std::move(kind));
}

bool Repertoire::wants_samples() const {
  return unforeseen_ || !chosen_ || kinds_[*chosen_].forecast->samples() < kEnoughSamples;
}

// --- which step this is ---------------------------------------------------------------------------------------------

void Repertoire::begin_step() {
  watching_ = varies_;
  unforeseen_ = false;
  chosen_.reset();
  seen_.clear();
  possible_.clear();
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) possible_.push_back(kind);
}

void Repertoire::op(std::uint64_t shape, Sizes sizes) {
  const std::size_t at = seen_.size();
  seen_.push_back({.shape = shape, .sizes = std::move(sizes)});
  std::erase_if(possible_, [&](std::size_t kind) {
    const std::vector<std::uint64_t>& shapes = kinds_[kind].steps->shapes;
    return at >= shapes.size() || shapes[at] != shape;
  });
  const auto waits = [&](std::size_t kind) { return kinds_[kind].forecast->known_after() > seen_.size(); };
  if (std::ranges::any_of(possible_, waits)) return;
  watching_ = false;
  narrow_down();
}

// Of several kinds that begin alike the one whose steps were nearest in size.
void Repertoire::narrow_down() {
  double nearest = HUGE_VAL;
  for (const std::size_t kind : possible_) {
    const auto signature = signature_of(kinds_[kind]);
    if (!signature) continue;
    const double distance = kinds_[kind].forecast->distance(*signature);
    if (distance >= nearest) continue;
    nearest = distance;
    chosen_ = kind;
    now_ = *signature;
  }
  unforeseen_ = !chosen_;
}

std::optional<Signature> Repertoire::signature_of(const Kind& kind) const {
  Signature at;
  for (const std::uint32_t coordinate : kind.forecast->coordinates()) {
    const MarkPart& mark = kind.marks[coordinate];
    const std::vector<Bytes>& sizes = seen_[mark.op].sizes[static_cast<std::size_t>(mark.part)];
    if (mark.nth >= sizes.size() || sizes[mark.nth] <= 0_B) return std::nullopt;
    at.push_back(static_cast<double>(sizes[mark.nth].count));
  }
  return at;
}

std::shared_ptr<const Script> Repertoire::find_script() {
  if (!chosen_) return nullptr;
  Kind& kind = kinds_[*chosen_];
  const Signature cell = round_up_to_grid(kind, now_);
  const Made* made = find_made(kind, now_, kCoarsest);
  if (made == nullptr || made->script == nullptr) ask(kind, cell);
  return made == nullptr ? nullptr : made->script;
}

// --- plans ----------------------------------------------------------------------------------------------------------

Signature Repertoire::round_up_to_grid(const Kind& kind, const Signature& at) {
  Signature cell;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double least = kind.forecast->range(i).first, ratio = grid_ratio(kind.forecast->range(i));
    cell.push_back(least * std::pow(ratio, std::ceil(std::log(at[i] / least) / std::log(ratio) - kEqual)));
  }
  return cell;
}

// The one for the least size that is enough, if that is not too much.
Repertoire::Made* Repertoire::find_made(Kind& kind, const Signature& at, double most_above) {
  Made* best = nullptr;
  double least = most_above;
  for (Made& made : kind.made) {
    double above = 1;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double times = made.at.size() == at.size() ? made.at[i] / at[i] : 0;
      above = times < 1 - kEqual ? HUGE_VAL : std::max(above, times);
    }
    const bool better = best != nullptr && best->script == nullptr && made.script != nullptr && above <= most_above;
    if (above < least + kEqual || better) best = &made, least = above;
  }
  return best;
}

void Repertoire::ask(Kind& kind, const Signature& at) {
  const auto is_made = [&](const Made& made) { return made.at == at; };
  if (std::ranges::any_of(kind.made, is_made) || std::ranges::find(kind.asked, at) != kind.asked.end()) return;
  kind.asked.push_back(at);
}

bool Repertoire::is_asked() const {
  return std::ranges::any_of(kinds_, [](const Kind& kind) { return !kind.asked.empty(); });
}

// Only along one coordinate: with more there are too many cells that never occur.
std::optional<Signature> Repertoire::find_hole(Kind& kind) {
  if (kind.forecast->coordinates().size() != 1) return std::nullopt;
  const auto [least, most] = kind.forecast->range(0);
  const double ratio = grid_ratio({least, most});
  for (Signature at = round_up_to_grid(kind, {most}); at[0] >= least * (1 - kEqual); at[0] /= ratio) {
    if (find_made(kind, {at[0] * (1 - kEqual)}, (1 + ratio) / 2) == nullptr) return at;
  }
  return std::nullopt;
}

std::optional<Repertoire::Wanted> Repertoire::next_wanted() {
  for (std::size_t i = kinds_.size(); i-- > 0;) {
    Kind& kind = kinds_[i];
    if (kind.made.size() >= kMostScripts) kind.made.erase(kind.made.begin());
    std::optional<Signature> at;
    if (!kind.asked.empty()) {
      at = std::move(kind.asked.back());
      kind.asked.pop_back();
    } else {
      at = find_hole(kind);
    }
    if (!at || at->size() != kind.forecast->coordinates().size()) continue;
    kind.made.push_back({.at = *at, .script = nullptr});
    const auto predicted = kind.forecast->predict(*at);
    if (!predicted) continue;
    auto step = std::make_shared<Liveness>(kind.forecast->model());
    step->set_figures(predicted->figures);
    under_way_ = i;
    under_way_at_ = *at;
    return Wanted{.steps = kind.steps, .step = std::move(step), .margin = predicted->margin};
  }
  return std::nullopt;
}

void Repertoire::keep(std::shared_ptr<const Script> script) {
  if (under_way_ >= kinds_.size()) return;
  const auto is_it = [&](const Made& made) { return made.at == under_way_at_; };
  const auto found = std::ranges::find_if(kinds_[under_way_].made, is_it);
  if (found != kinds_[under_way_].made.end()) found->script = std::move(script);
}

std::size_t Repertoire::script_count() const {
  std::size_t count = 0;
  for (const Kind& kind : kinds_) count += static_cast<std::size_t>(std::ranges::count_if(kind.made, [](const Made& made) { return made.script != nullptr; }));
  return count;
}

void Repertoire::forget_scripts() {
  for (Kind& kind : kinds_) kind.made.clear(), kind.asked.clear();
  watching_ = false;
}

}  // namespace spillway
