#include "plan/problem.h"

#include <algorithm>

namespace spillway {

namespace {

// The engine rebuilds through at most this many storages without bytes, and lets a rebuild take this part of the budget, or
// the dead ones it holds that part.
constexpr std::size_t kMostAncestors = 24;
constexpr std::int64_t kRebuildPart = 4, kDeadPart = 16;
constexpr std::int64_t kHeldPart = 16;  // of what is rebuilt: an ingredient below this is kept beyond its death

// Whose end nobody saw leaves nothing to plan.
std::vector<Gap> worth_deciding(const Liveness& step, Bytes smallest, Ends ends) {
  std::vector<Gap> gaps;
  for (const Gap& gap : find_gaps(step)) {
    const LiveStorage& storage = step.storages()[gap.storage];
    const bool leaves = gap.begin > storage.birth || storage.before;  // something touched it here, or before
    const bool seen = gap.ends == GapEnd::access || (gap.ends == GapEnd::death && ends == Ends::all);
    if (seen && gap.begin > 0 && leaves && storage.size >= smallest && storage.kind != StorageKind::workspace) gaps.push_back(gap);
  }
  return gaps;
}

}  // namespace

Problem::Problem(const PlanRequest& request, Ends ends)
    : step_(request.step), costs_(request.costs), budget_(request.budget), lean_(request.lean), gaps_(worth_deciding(request.step, request.smallest, ends)) {
  index_lives();
  movable_.resize(gaps_.size());
  chains_.resize(gaps_.size());
  for (GapPlace gap = 0; gap < gap_count(); ++gap) judge(gap);
}

GapPlace Problem::find(const Gap& gap) const {
  const auto found = std::ranges::find(gaps_, gap);
  return found == gaps_.end() ? kNoPlace : static_cast<GapPlace>(found - gaps_.begin());
}

void Problem::index_lives() {
  const OpPlace ops = step_.op_count();
  births_.resize(ops + 1);
  made_.resize(ops + 1);
  deaths_.resize(ops + 1);
  takings_.resize(ops);
  std::vector<bool> is_made(step_.storage_count());
  for (OpPlace op = 0; op < ops; ++op) {
    for (const Access& access : step_.accesses_at(op)) {
      if (!access.makes) continue;
      is_made[access.storage] = true;
      made_[op].push_back(access.storage);
    }
  }
  for (StoragePlace at = 0; at < step_.storage_count(); ++at) {
    const LiveStorage& storage = step_.storages()[at];
    if (storage.birth == storage.death) {  // never there after an op
      if (storage.birth >= ops) continue;
      takings_[storage.birth].push_back({at, storage.born, /*begins=*/true});
      takings_[storage.birth].push_back({at, storage.died, /*begins=*/false});
      continue;
    }
    if (is_made[at]) takings_[storage.birth].push_back({at, storage.born, /*begins=*/true});
    else if (!storage.before) births_[storage.birth].push_back(at);
    if (!storage.after) deaths_[storage.death].push_back(at);
  }
  for (auto& takings : takings_) std::ranges::sort(takings, {}, &Taking::order);
  after_begin_.assign(ops + 2, 0);
  for (const Gap& gap : gaps_) ++after_begin_[gap.begin];  // after op begin - 1
  for (OpPlace op = 1; op < after_begin_.size(); ++op) after_begin_[op] += after_begin_[op - 1];
  after_.resize(gaps_.size());
  std::vector<std::uint32_t> next(after_begin_.begin(), after_begin_.end() - 1);
  for (GapPlace gap = 0; gap < gap_count(); ++gap) after_[next[gaps_[gap].begin - 1]++] = gap;
}

std::uint32_t Problem::version_at(StoragePlace storage, OpPlace op) const {
  const auto writers = step_.writers_of(storage);
  return static_cast<std::uint32_t>(std::ranges::lower_bound(writers, op) - writers.begin());
}

bool Problem::stays_clean(StoragePlace storage) const {
  const LiveStorage& whole = step_.storages()[storage];
  return whole.before && whole.after && whole.next == storage && step_.writers_of(storage).empty();
}

Nanos Problem::copy_time(Bytes size, double nanos_per_byte) const {
  return costs_.per_copy + Nanos{static_cast<std::int64_t>(static_cast<double>(size.count) * nanos_per_byte)};
}

double Problem::price_of_move(GapPlace gap) const {
  const double out = stays_clean(gaps_[gap].storage) ? 0 : costs_.out_price;
  return static_cast<double>(size(gap).count) * (out + (comes_back(gap) ? costs_.in_price : 0));
}

bool Problem::may_be_lean(OpPlace maker, StoragePlace wanted, OpPlace op) const {
  if (maker >= lean_.size() || lean_[maker] == 0_ns) return false;
  if (rides(maker)) return true;
  return !sides(maker).empty() && made_[maker].front() == wanted && std::ranges::all_of(sides(maker), [&](StoragePlace side) {
    return !is_dead(side, op) && version_at(side, op) == 1;
  });
}

OpPlace Problem::straight_from(OpPlace writer, OpPlace op) const {
  if (writer >= lean_.size() || lean_[writer] == 0_ns || made_[writer].size() != 1) return kNoPlace;
  const auto reads = [&](const Access& access) { return is_ingredient(access, made_[writer].front()); };
  const bool sum = std::ranges::count_if(step_.accesses_at(writer), reads) > 1;
  for (const Access& access : step_.accesses_at(writer)) {
    if (!reads(access) || access.version != 1) continue;
    const OpPlace maker = step_.writers_of(access.storage).front();
    const bool dropout = maker < lean_.size() && lean_[maker] > 0_ns && sides(maker).size() == 1;  // with its mask
    if (sum && !dropout) continue;
    return is_dead(access.storage, op) && may_be_lean(maker, access.storage, op) ? maker : kNoPlace;  // of two the engine takes the first
  }
  return kNoPlace;
}

Nanos Problem::rerun_time(OpPlace writer, bool lean) const {
  const Nanos whole = step_.ops()[writer].time_again();
  if (lean && made_[writer].empty()) return std::min(lean_[writer], whole);
  return (lean ? std::min(lean_[writer], whole) : whole) + costs_.per_replay;
}

void Problem::judge(GapPlace at) {
  const Gap& gap = gaps_[at];
  movable_[at] = costs_.out_nanos_per_byte > 0 && gap.end > gap.begin;
  chains_[at] = find_chain(gap);
  if (!comes_back(at)) chains_[at].time = 0_ns;  // it could be made again, and will not be
}

Problem::Chain Problem::find_chain(const Gap& gap) const {
  Chain chain;
  // Around the step's end the recipes are those of another batch.
  if (gap.end >= step_.op_count() || step_.storages()[gap.storage].before) return chain;
  std::vector<StoragePlace> seen{gap.storage};
  if (!add_writers(gap.storage, gap.version, gap.end, step_.storages()[gap.storage].size / kHeldPart, seen, chain)) return chain;
  const Bytes whole = step_.storages()[gap.storage].size + chain.dead;
  chain.legal = whole <= budget_ / kRebuildPart || chain.dead <= budget_ / kDeadPart;
  return chain;
}

bool Problem::add_writers(StoragePlace storage, std::uint32_t version, OpPlace op, Bytes small, std::vector<StoragePlace>& seen, Chain& chain) const {
  const auto writers = step_.writers_of(storage);
  if (version == 0 || version > writers.size()) return false;
  for (const OpPlace writer : writers.first(version)) {
    const LiveOp& ran = step_.ops()[writer];
    if (!ran.replayable) return false;
    const OpPlace maker = straight_from(writer, op);
    const bool straight = maker != kNoPlace;
    chain.time += rerun_time(writer, straight || may_be_lean(writer, storage, op));
    const StoragePlace source = straight ? made_[maker].front() : kNoPlace;
    const auto add = [&](const Access& access) { return access.storage == source || add_ingredient(access, op, small, seen, chain); };
    const auto add_all = [&](OpPlace reader, StoragePlace wanted) {
      return std::ranges::all_of(step_.accesses_at(reader), [&](const Access& access) { return !is_ingredient(access, wanted) || add(access); });
    };
    if ((straight && !add_all(maker, source)) || !add_all(writer, storage)) return false;
  }
  return true;
}

bool Problem::add_ingredient(const Access& access, OpPlace op, Bytes small, std::vector<StoragePlace>& seen, Chain& chain) const {
  if (version_at(access.storage, op) != access.version) return false;
  if (!is_dead(access.storage, op) || std::ranges::find(seen, access.storage) != seen.end()) return true;
  const LiveStorage& ingredient = step_.storages()[access.storage];
  if (seen.size() == kMostAncestors) return false;
  seen.push_back(access.storage);
  if (ingredient.size <= small && ingredient.birth < ingredient.death) {
    chain.held.push_back(access.storage);
    return true;
  }
  if (ingredient.before) return false;
  chain.dead += ingredient.size;
  return add_writers(access.storage, access.version, op, small, seen, chain);
}

}  // namespace spillway
