#include "engine/repertoire.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ranges>
#include <tuple>
#include <utility>

#include "engine/reuse.h"
#include "liveness/curve.h"

namespace spillway {

namespace {

constexpr std::size_t kEnoughSamples = 16;  // of a kind; its fits are exact after two or three, its times settle later
constexpr std::uint32_t kTellable = 2;      // samples: one does not tell what varies
constexpr double kOutside = 0.05;           // of the range that was sampled: a run that grows is sampled every so much
constexpr int kLooks = 8;                   // steps that are begun to be recorded after one of a new size, for the next such: the last batch of a short epoch
constexpr std::uint32_t kOftenStrays = 4;   // are followed by a sample each; after that ever fewer
constexpr int kAstray = 2;                  // steps in a row that left their scripts
constexpr int kSeldom = 8, kMostSeldom = 16;  // steps from one sample to the next that may be of a kind hardly known; how many of those
constexpr std::size_t kMostScripts = 64;    // of a kind
constexpr std::size_t kMostAsked = 16;      // of a kind: those that came last
constexpr std::size_t kMostKinds = 16;
constexpr double kCells = 16;               // that the range of sizes is cut into
constexpr double kFinest = 1.02, kCoarsest = 1.10;
constexpr std::size_t kMostFitting = 8;
constexpr std::size_t kMostTrims = 8;       // of a script: sizes come again
constexpr double kAlike = 0.01;             // a peak that much lower will do
constexpr double kNearlyEnough = 1.05;      // times the peak a plan leaves at its own size
constexpr double kInReach = 0.5;            // of the room: what takes more is near enough to it that something larger may have none
constexpr double kWorthAsking = 1.05;       // times the peak that was last asked for
constexpr double kUncounted = 0.05;         // of the room, as plans have it that leave something: copies on their way, rebuilds
constexpr int kMostTries = 3;               // of plans for other sizes, on the training thread
constexpr double kEqual = 1e-9;
constexpr double kSameRoom = 0.02;          // of it: half of what plans leave free
constexpr double kMoreRoom = 0.1;           // of it, for which a plan is made anew
constexpr int kMostLoosened = 4;            // times: where room comes and goes the tightest plan stays

// How much larger each cell of the grid is than the one before, from the least and the most seen.
double grid_ratio(std::pair<double, double> range) {
  return std::clamp(std::pow(range.second / range.first, 1 / kCells), kFinest, kCoarsest);
}

// With several coordinates less of one may be more of the step: as many tokens in fewer, longer rows.
bool is_within(const Signature& at, const Signature& limit) { return at.size() == 1 && limit.size() == 1 ? at[0] <= limit[0] : at == limit; }

// The largest of a cell of the grid and, with several coordinates, the others at its edges.
std::vector<Signature> corners_of(const StepKind& kind, const Signature& cell) {
  std::vector<Signature> corners{cell};
  for (std::size_t i = 0; cell.size() > 1 && i < cell.size(); ++i) {
    for (std::size_t known = corners.size(), at = 0; at < known; ++at) {
      corners.push_back(corners[at]);
      corners.back()[i] /= grid_ratio(kind.range(i));
    }
  }
  return corners;
}

Bytes part_of(Bytes room, double part) { return {static_cast<std::int64_t>(static_cast<double>(room.count) * part)}; }

bool is_too_much(Bytes peak, Bytes limit) { return static_cast<double>(peak.count) > static_cast<double>(limit.count) * kNearlyEnough; }

Reuse reuse_gaps(const Liveness& step, const Script& script, Bytes limit) {
  return reuse_gaps(step, script.gaps(), limit, script.spared_in_order(), script.gaps().size() - script.planned_gaps());
}

bool is_extended(const Script& script, const std::vector<bool>& spared) {
  return std::ranges::count(spared | std::views::drop(script.planned_gaps()), false) > 0;
}

Bytes bytes_before(const Liveness& step) {
  Bytes before;
  for (const LiveStorage& storage : step.storages()) before += storage.before ? storage.size : 0_B;
  return before;
}

}  // namespace

// --- learning -------------------------------------------------------------------------------------------------------

std::optional<Repertoire::Lesson> Repertoire::study(const std::shared_ptr<const RecordedSteps>& steps) {
  const auto whole = find_step(steps->trace, StepRecorder::kStep);
  if (!whole || whole->ops == 0) return std::nullopt;
  const Liveness step(steps->trace, *whole);
  const std::lock_guard lock(studying_);
  Lesson lesson{.kind = forecast_.observe(step, steps->shapes), .steps = steps, .scratch = nullptr};
  lesson.scratch = std::make_shared<Liveness>(lesson.kind->model());
  return lesson;
}

// What was thought of sizes may be otherwise.
void Repertoire::Kind::learn(Lesson& more) {
  forecast.swap(more.kind);
  foreseen.swap(more.scratch);
  fitting.clear();
  for (Made& one : made) one.trims.clear();
}

void Repertoire::take_in(Lesson& lesson) {
  varies_ |= !lesson.kind->coordinates().empty();
  if (lesson.kind->observed() == kTellable && proven_++ < kMostKinds) strays_ = 0, seldom_ = 0;  // looking for it was worth while
  if (Kind* known = find_kind(*lesson.kind)) known->learn(lesson);
  else add_kind(std::move(lesson));
}

void Repertoire::observe(const std::shared_ptr<const RecordedSteps>& steps) {
  if (auto lesson = study(steps)) take_in(*lesson);
}

Repertoire::Kind* Repertoire::find_kind(const StepKind& kind) {
  const auto known = std::ranges::find(kinds_, kind.shape().key, [](const Kind& one) { return one.forecast->shape().key; });
  return known == kinds_.end() ? nullptr : &*known;
}

void Repertoire::add_kind(Lesson lesson) {
  const std::vector<const Op*> ops = ops_of(lesson.steps->trace, StepRecorder::kStep);
  Kind kind{.forecast = std::move(lesson.kind), .steps = std::move(lesson.steps), .marks = {}, .made = {}, .asked = {}, .fitting = {}, .room = {},
            .before = {}, .beside = {}, .used = ++uses_, .strays = 0, .foreseen = std::move(lesson.scratch)};
  kind.before = bytes_before(kind.forecast->model());
  for (const StepKind::Mark& mark : kind.forecast->marks()) {
    const auto part = find_part(*ops[mark.op], kind.forecast->model().storages()[mark.storage].id);
    kind.marks.push_back(part ? MarkPart{mark.op, part->part, part->nth} : MarkPart{mark.op, Part::input, UINT16_MAX});
  }
  if (kinds_.size() < kMostKinds) kinds_.push_back(std::move(kind));
  else replace_kind(std::move(kind));
}

// Of those hardly known the one that was met longest ago gives way; failing that, of all.
void Repertoire::replace_kind(Kind kind) {
  const auto worth = [](const Kind& one) { return std::pair(one.forecast->observed() >= kTellable, one.used); };
  const auto place = static_cast<std::size_t>(std::ranges::min_element(kinds_, {}, worth) - kinds_.begin());
  std::erase(possible_, place);
  if (chosen_ == place) chosen_.reset();
  kinds_[place] = std::move(kind);
}

bool Repertoire::is_hardly_known(std::size_t kind) const { return kinds_[kind].forecast->observed() < kTellable; }

// Those a kind is learnt from first, and one every so often that may be of a kind nobody has seen: of that nothing is known
// before its end. A new size shows early: many steps are begun to be recorded for it, and few are to their end.
bool Repertoire::wants_samples(bool strayed) {
  looking_ = new_size_ ? kLooks : std::max(looking_ - 1, 0);
  const bool is_known = chosen_ && kinds_[*chosen_].forecast->observed() >= kEnoughSamples;
  whole_ = chosen_ ? !is_known : kinds_.size() < kMostKinds;
  if (whole_) return true;
  if (strayed || !chosen_) ++strays_, whole_ = strays_ <= kOftenStrays || std::has_single_bit(strays_);
  const bool may_be_another = std::ranges::any_of(possible_, [&](std::size_t kind) { return is_hardly_known(kind); });
  if (may_be_another && seldom_ < kSeldom * kMostSeldom) whole_ |= ++seldom_ % kSeldom == 0;
  return whole_ || looking_ > 0;
}

void Repertoire::note_course(bool followed) {
  if (chosen_) kinds_[*chosen_].strays = followed ? 0 : kinds_[*chosen_].strays + 1;
}

bool Repertoire::teaches() const { return whole_ || !chosen_ || new_size_; }

// As long as few sizes of a kind were sampled each other one is; later what lies outside of them.
bool Repertoire::is_new_to(const Kind& kind, const Signature& signature) const {
  if (kind.forecast->samples() < kEnoughSamples && distance_to(kind, signature) > 0) return true;
  return kind.forecast->beyond(signature) > kOutside;
}

// --- which step this is ---------------------------------------------------------------------------------------------

void Repertoire::begin_step(Bytes living) {
  watching_ = varies_;
  living_[begun_++ % kLasting] = living;
  chosen_.reset();
  new_size_ = false;
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

// Of several kinds that begin alike the one whose steps were nearest in size, if it can tell anything: a step that went another way
// once must not stand before all others. One whose steps go another way now, since lists are cut otherwise in another budget, stands
// behind the others.
void Repertoire::narrow_down() {
  std::tuple nearest{true, true, HUGE_VAL};
  for (const std::size_t kind : possible_) {
    const auto signature = signature_of(kinds_[kind]);
    if (!signature) continue;
    const std::tuple distance{is_hardly_known(kind), kinds_[kind].strays >= kAstray, distance_to(kinds_[kind], *signature)};
    if (distance >= nearest) continue;
    nearest = distance;
    chosen_ = kind;
    now_ = *signature;
  }
  if (!chosen_) return;
  kinds_[*chosen_].used = ++uses_;
  new_size_ = is_new_to(kinds_[*chosen_], now_);
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

// Of a kind that was seen at one size only nothing is known to vary: its marks tell how far that is.
double Repertoire::distance_to(const Kind& kind, const Signature& signature) const {
  if (!signature.empty()) return kind.forecast->distance(signature);
  double worst = 0;
  for (std::size_t at = 0; at < kind.marks.size(); ++at) {
    const MarkPart& mark = kind.marks[at];
    if (mark.op >= seen_.size()) continue;
    const std::vector<Bytes>& sizes = seen_[mark.op].sizes[static_cast<std::size_t>(mark.part)];
    const Bytes then = kind.forecast->model().storages()[kind.forecast->marks()[at].storage].size;
    if (mark.nth < sizes.size() && then > 0_B) worst = std::max(worst, std::abs(static_cast<double>(sizes[mark.nth].count) / static_cast<double>(then.count) - 1));
  }
  return worst;
}

// A copy of the model that somebody made since: plans do not know of it. Once it had to leave it takes no room.
Bytes Repertoire::beside_of(const Kind& kind, Bytes room) const {
  const Bytes more = std::ranges::min(living_) - kind.before;
  return more > part_of(room, kSameRoom) ? more : 0_B;
}

Repertoire::Found Repertoire::find_script(Bytes room) {
  if (!chosen_) return {};
  Kind& kind = kinds_[*chosen_];
  if (kind.forecast->samples() == 1 && new_size_) return {};  // what a kind is at one size tells nothing of others
  kind.beside = beside_of(kind, room);
  Found found = find_script(kind, room - kind.beside);
  found.beside = kind.beside;
  return found;
}

// A script for a little more is taken, unless this step needs none: without what it moves or drops in vain here, since a step a tenth
// longer may have to be rid of twice as much.
Repertoire::Found Repertoire::find_script(Kind& kind, Bytes room) {
  if (room < std::exchange(kind.room, room)) kind.fitting.clear();
  if (is_below_fitting(kind, now_)) return {.script = nullptr, .fits = true};
  Made* made = find_made(kind, now_, kCoarsest);
  if (made != nullptr) made->used = ++uses_;
  const bool is_there = made != nullptr && made->script;
  if (is_there) ask_again(kind, *made, room);
  const bool is_good = is_there && made->room <= room + part_of(room, kSameRoom);
  if (is_good && now_.size() == 1 && made->at == now_ && made->room >= room) return as_planned(made->script);
  if (is_good) {
    if (Found known = find_trim(*made, now_, room); known.script) return known;
  }
  const bool more_fits = made != nullptr && !is_there && made->peak > 0_B && made->peak <= room;
  if (more_fits && is_within(now_, made->at)) return {.script = nullptr, .fits = true};
  const auto predicted = kind.forecast->predict(now_, /*times=*/false);
  if (!predicted) return is_good ? as_planned(made->script) : Found{};
  kind.foreseen->set_figures(predicted->figures);
  const Bytes peak = live_curve(*kind.foreseen).peak + predicted->margin;
  if (peak <= room) {
    note_fitting(kind, now_);
    stand_by(kind, now_, peak, room);
    return {.script = nullptr, .fits = true};
  }
  if (is_good) {
    if (Found trimmed = trim(*made, now_, *kind.foreseen, peak, predicted->margin, room); trimmed.script) return trimmed;
  }
  if (!is_there) ask(kind, round_up_to_grid(kind, now_));
  return find_enough(kind, *kind.foreseen, peak, room - predicted->margin);
}

// What the script leaves at its own size, by the count of reuse.h, and what there is more room than it was made for. What that count
// leaves out, copies on their way and rebuilds, is more where the step is larger.
Bytes Repertoire::leaves(const Made& made, Bytes room, Bytes peak) {
  const Script& script = *made.script;
  if (script.planned_gaps() == 0) return room - part_of(room, kUncounted);  // at its own size nobody leaves
  const Bytes uncounted = std::max(std::min(script.budget(), made.room) - script.peak_beside_gaps(), 0_B);
  const double growth = std::max(static_cast<double>(peak.count) / static_cast<double>(std::max(made.peak, 1_B).count) - 1, 0.0);
  return script.peak_beside_gaps() + std::max(room - made.room, 0_B) - part_of(uncounted, growth);
}

// Without the reserve.
Repertoire::Found Repertoire::as_planned(const std::shared_ptr<const Script>& script) { return {.script = script, .spared = script->spared_reserve()}; }

Repertoire::Found Repertoire::find_trim(const Made& made, const Signature& at, Bytes room) {
  const auto known = std::ranges::find_if(made.trims, [&](const Trim& trim) { return trim.at == at && trim.room == room; });
  if (known == made.trims.end()) return {};
  return {.script = made.script, .extended = is_extended(*made.script, known->spared), .spared = known->spared};
}

// Where the step is larger than the forecast had it when the script was made, all of the script is needed. With several coordinates
// it may be much larger, though it is below the script's size: nothing is found then.
Repertoire::Found Repertoire::trim(Made& made, const Signature& at, const Liveness& step, Bytes peak, Bytes margin, Bytes room) {
  const Bytes limit = std::min(room - margin, leaves(made, room, peak));
  Reuse reuse = reuse_gaps(step, *made.script, limit);
  if (at.size() > 1 && is_too_much(reuse.peak, std::max(limit, made.script->peak_beside_gaps()))) return {};
  if (made.trims.size() == kMostTrims) made.trims.erase(made.trims.begin());
  made.trims.push_back({at, room, reuse.spared});
  const bool extended = is_extended(*made.script, reuse.spared);
  return {.script = made.script, .extended = extended, .spared = std::move(reuse.spared)};
}

bool Repertoire::is_below_fitting(const Kind& kind, const Signature& at) {
  return std::ranges::any_of(kind.fitting, [&](const Signature& fitting) { return is_within(at, fitting); });
}

void Repertoire::note_fitting(Kind& kind, const Signature& at) {
  std::erase_if(kind.fitting, [&](const Signature& fitting) { return is_within(fitting, at); });
  if (kind.fitting.size() == kMostFitting) kind.fitting.erase(kind.fitting.begin());
  kind.fitting.push_back(at);
}

// The first step that has no room comes before any plan for such, and what it lacks may be in the reserve of one that nearly had none.
void Repertoire::stand_by(Kind& kind, const Signature& at, Bytes peak, Bytes room) {
  if (peak < part_of(room, kInReach) || peak < part_of(kind.stood_by, kWorthAsking)) return;
  kind.stood_by = peak;
  ask(kind, round_up_to_grid(kind, at));
}

// Those for larger peaks are enough nearly always; none is, where this step is the largest so far: then the one for the
// largest before it, with what its reserve adds, leaves the evictor little to do.
Repertoire::Found Repertoire::find_enough(const Kind& kind, const Liveness& step, Bytes peak, Bytes room) {
  std::vector<const Made*> made;
  for (const Made& one : kind.made) {
    if (one.script) made.push_back(&one);
  }
  if (kind.standby) made.push_back(&*kind.standby);
  std::ranges::stable_sort(made, {}, &Made::peak);
  const Bytes least{static_cast<std::int64_t>(static_cast<double>(peak.count) * (1 - kAlike))};
  auto next = std::ranges::lower_bound(made, least, {}, &Made::peak);
  if (next == made.end() && next != made.begin()) --next;
  for (int tries = 0; next != made.end() && tries < kMostTries; ++next, ++tries) {
    const Script& script = *(*next)->script;
    const Bytes limit = std::min(room, leaves(**next, room, peak));
    Reuse reuse = reuse_gaps(step, script, limit);
    if (is_too_much(reuse.peak, limit)) continue;
    const bool extended = is_extended(script, reuse.spared);
    return {.script = (*next)->script, .reused = true, .extended = extended, .spared = std::move(reuse.spared)};
  }
  return {};
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
    if (above > most_above) continue;
    const bool first = best == nullptr || (!best->script && made.script);  // one that is there, rather than one to come
    if (first || (above < least && !best->script == !made.script)) best = &made, least = above;
  }
  return best;
}

void Repertoire::ask(Kind& kind, const Signature& at) {
  const auto made = std::ranges::find(kind.made, at, &Made::at);
  const bool fitted = made != kind.made.end() && !made->script && made->peak > 0_B;  // when there was more room
  if ((made != kind.made.end() && !fitted) || std::ranges::find(kind.asked, at) != kind.asked.end()) return;
  if (fitted) kind.made.erase(made);
  if (kind.asked.size() == kMostAsked) kind.asked.erase(kind.asked.begin());
  kind.asked.push_back(at);
}

// Made for more room than there is, or for so much less that a better one is worth its while.
void Repertoire::ask_again(Kind& kind, Made& made, Bytes room) {
  const bool is_less = made.asked > room + part_of(room, kSameRoom);
  const bool is_more = made.asked < room - part_of(room, kMoreRoom) && made.loosened < kMostLoosened;
  if (!is_less && !is_more) return;
  made.loosened += is_more ? 1 : 0;
  made.asked = room;
  if (std::ranges::find(kind.asked, made.at) == kind.asked.end()) kind.asked.push_back(made.at);
}

std::int64_t Repertoire::turnover() const {
  std::size_t most = 0;
  for (const Kind& kind : kinds_) most = std::max(most, kind.ordered / (kMostScripts + 1));
  return static_cast<std::int64_t>(most);
}

bool Repertoire::is_asked() const {
  return std::ranges::any_of(kinds_, [](const Kind& kind) { return !kind.asked.empty(); });
}

// Only along one coordinate: with more there are too many cells that never occur.
std::optional<Signature> Repertoire::find_hole(Kind& kind) {
  if (kind.forecast->coordinates().size() != 1 || kind.made.size() >= kMostScripts) return std::nullopt;
  const auto [least, most] = kind.forecast->range(0);
  const double ratio = grid_ratio({least, most});
  for (Signature at = round_up_to_grid(kind, {most}); at[0] >= least * (1 - kEqual); at[0] /= ratio) {
    if (find_made(kind, {at[0] * (1 - kEqual)}, (1 + ratio) / 2) == nullptr) return at;
  }
  return std::nullopt;
}

std::optional<Signature> Repertoire::next_asked(Kind& kind) {
  while (!kind.asked.empty()) {
    Signature at = std::move(kind.asked.back());
    kind.asked.pop_back();
    if (at.size() == kind.forecast->coordinates().size()) return at;
  }
  return std::nullopt;
}

// Its margin was large, and its plan the tighter for it.
Repertoire::Made* Repertoire::find_outdated(Kind& kind) {
  const std::uint32_t known = std::min<std::uint32_t>(kind.forecast->observed(), kEnoughSamples);
  const auto is_outdated = [&](const Made& made) {
    return made.script && made.learnt_from * 2 <= known && made.at.size() == kind.forecast->coordinates().size();
  };
  const auto found = std::ranges::find_if(kind.made, is_outdated);
  return found == kind.made.end() ? nullptr : &*found;
}

Repertoire::Order Repertoire::order_again(const Kind& kind, Made& made, bool quick) {
  made.learnt_from = kind.forecast->observed();
  made.refined = !quick;
  return {.kind = kind.forecast, .steps = kind.steps, .at = made.at, .quick = quick};
}

std::optional<Repertoire::Order> Repertoire::next_order() {
  const auto order = [&](Kind& kind, const std::optional<Signature>& at) -> std::optional<Order> {
    if (!at) return std::nullopt;
    if (const auto known = std::ranges::find(kind.made, *at, &Made::at); known != kind.made.end()) return order_again(kind, *known, /*quick=*/true);
    if (kind.made.size() >= kMostScripts) kind.made.erase(std::ranges::min_element(kind.made, {}, &Made::used));
    kind.made.push_back({.at = *at, .script = nullptr, .used = ++uses_});
    ++kind.ordered;
    return order_again(kind, kind.made.back(), /*quick=*/true);
  };
  for (Kind& kind : std::views::reverse(kinds_)) {
    if (auto asked = order(kind, next_asked(kind))) return asked;
  }
  for (Kind& kind : std::views::reverse(kinds_)) {
    if (Made* made = find_outdated(kind)) return order_again(kind, *made, /*quick=*/true);
  }
  for (Kind& kind : std::views::reverse(kinds_)) {
    if (auto hole = order(kind, find_hole(kind))) return hole;
  }
  for (Kind& kind : std::views::reverse(kinds_)) {
    for (Made& made : kind.made) {
      if (made.refined || !made.script || made.at.size() != kind.forecast->coordinates().size()) continue;
      return order_again(kind, made, /*quick=*/false);
    }
  }
  return std::nullopt;
}

std::optional<Repertoire::Wanted> Repertoire::foresee(Order order) {
  auto step = std::make_shared<Liveness>(order.kind->model());
  std::optional<StepKind::Prediction> largest;
  Bytes peak;
  for (const Signature& corner : corners_of(*order.kind, order.at)) {
    auto predicted = order.kind->predict(corner);
    if (!predicted) continue;
    step->set_figures(predicted->figures);
    const Bytes its = live_curve(*step).peak + predicted->margin;
    if (largest && its <= peak) continue;
    largest = std::move(predicted);
    peak = its;
  }
  if (!largest) return std::nullopt;
  step->set_figures(largest->figures);
  return Wanted{.order = std::move(order), .step = std::move(step), .margin = largest->margin, .peak = peak};
}

Repertoire::Made* Repertoire::find_ordered(const Order& order) {
  Kind* kind = find_kind(*order.kind);
  if (kind == nullptr) return nullptr;
  const auto found = std::ranges::find(kind->made, order.at, &Made::at);
  return found == kind->made.end() ? nullptr : &*found;
}

std::optional<Bytes> Repertoire::begin_script(const Wanted& wanted, Bytes room) {
  Made* made = find_ordered(wanted.order);
  if (made == nullptr) return std::nullopt;
  room -= find_kind(*wanted.order.kind)->beside;
  made->peak = wanted.peak;
  made->asked = room;
  if (wanted.peak <= room) {
    made->script = nullptr;
    const Kind& kind = *find_kind(*wanted.order.kind);
    const bool largest = std::ranges::none_of(kind.made, [&](const Made& one) { return one.peak > wanted.peak; });
    if (!largest || wanted.peak < part_of(room, kInReach) || (kind.standby && kind.standby->peak >= wanted.peak)) return std::nullopt;
  }
  under_way_ = wanted.order;
  room_under_way_ = room;
  return std::max(room - wanted.margin, 0_B);
}

void Repertoire::keep(std::shared_ptr<const Script> script) {
  Made* made = under_way_ ? find_ordered(*under_way_) : nullptr;
  if (made == nullptr) return;
  made->room = room_under_way_;
  made->trims.clear();
  if (made->peak > room_under_way_) {
    made->script = std::move(script);
  } else if (script->gap_count() > 0) {
    Made& standby = find_kind(*under_way_->kind)->standby.emplace(*made);
    standby.script = std::move(script);
  }
}

std::size_t Repertoire::script_count() const {
  std::size_t count = 0;
  for (const Kind& kind : kinds_) count += static_cast<std::size_t>(std::ranges::count_if(kind.made, [](const Made& made) { return made.script != nullptr; }));
  return count;
}

void Repertoire::change_room() {
  for (Kind& kind : kinds_) {
    std::erase_if(kind.made, [](const Made& made) { return !made.script; });
    kind.asked.clear(), kind.fitting.clear();
    kind.strays = 0;
    kind.standby.reset();
    kind.stood_by = 0_B;
  }
  watching_ = false;
}

void Repertoire::outdate_scripts() {
  for (Kind& kind : kinds_) {
    for (Made& made : kind.made) made.learnt_from = 0;
  }
}

void Repertoire::forget_scripts() {
  change_room();
  for (Kind& kind : kinds_) kind.made.clear(), kind.ordered = 0;
}

}  // namespace spillway
