// Random little training loops: what liveness says about the last step is held against a slow reading of the events.
//
// The oracle keeps, for every op of the step, the set of who is alive and the set of who is touched, and looks at
// nothing else. A shrunk failure is a loop of a few lines.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <vector>

#include "liveness/curve.h"
#include "liveness/floor.h"
#include "liveness/gaps.h"
#include "liveness/in_out.h"
#include "trace/check.h"

namespace spillway {
namespace {

enum class Do : std::uint8_t { birth, death, run, make, write, view };

// `a` and `b` pick among those alive, modulo their number; `size` in bytes, also the op's workspace.
struct Line {
  Do what;
  std::uint32_t a, b, size;
};

std::ostream& operator<<(std::ostream& out, const Line& line) {
  constexpr const char* kNames[] = {"birth", "death", "run", "make", "write", "view"};
  return out << kNames[static_cast<int>(line.what)] << "(" << line.a << ", " << line.b << ", " << line.size << ")";
}

}  // namespace
}  // namespace spillway

template <>
struct rc::Arbitrary<spillway::Line> {
  static Gen<spillway::Line> arbitrary() {
    using spillway::Do;
    const auto what = gen::weightedElement<Do>(
        {{2, Do::birth}, {5, Do::death}, {3, Do::run}, {5, Do::make}, {2, Do::write}, {2, Do::view}});
    const auto pick = gen::inRange<std::uint32_t>(0, 12);
    return gen::construct<spillway::Line>(what, pick, pick, gen::inRange<std::uint32_t>(0, 5));
  }
};

namespace spillway {
namespace {

struct Touch {
  bool reads = false, writes = false, makes = false;
};

// What is known of a storage: who bore it where, and what happens to it in the last step, op by op.
struct Life {
  Bytes size;
  int step = 0;
  std::pair<int, int> spot;  // op of its step, its rank among those born there that are alive when the op runs
  bool before = false, after = false;
  std::set<int> alive;
  std::map<int, Touch> touched;
};

// Runs the same lines step after step, writing the trace and the oracle's notes.
class LoopRun {
 public:
  LoopRun(const std::vector<Line>& lines, int steps, std::uint32_t parameters) : steps_(steps) {
    for (std::uint32_t i = 0; i < parameters; ++i) birth(Bytes{7});
    for (step_ = 0; step_ < steps; ++step_) {
      place_ = 0;
      trace.events.emplace_back(StepBegin{StepIndex{static_cast<std::uint32_t>(step_)}, kJob, {}, {}});
      for (const StorageId id : living_) lives[id].before = last();
      for (const Line& line : lines) run(line);
      rank_newborn();
      trace.events.emplace_back(StepEnd{StepIndex{static_cast<std::uint32_t>(step_)}, kJob, {}});
    }
    for (const StorageId id : living_) lives[id].after = true;
  }

  Trace trace{.events = {Name{NameId{0}, "op"}}, .names = {"op"}};
  std::map<StorageId, Life> lives;
  std::vector<Bytes> workspaces;  // by op of the last step
  [[nodiscard]] int ops() const { return place_; }
  [[nodiscard]] bool last() const { return step_ + 1 >= steps_; }
  // Who plays the part of `id` in the step after: found in how the step before it went on.
  [[nodiscard]] const Life* twin_of(StorageId id) const {
    const Life& life = lives.at(id);
    if (life.before) return life.after ? &life : nullptr;
    for (const auto& [other, was] : lives)
      if (was.before && !was.after && was.step == steps_ - 2 && was.spot == life.spot && was.size == life.size)
        return &was;
    return nullptr;
  }

 private:
  static constexpr JobId kJob{0};

  StorageId birth(Bytes size) {
    const StorageId id{static_cast<std::uint32_t>(lives.size())};
    lives[id] = {.size = size, .step = step_, .spot = {place_, -1}};
    living_.push_back(id);
    trace.events.emplace_back(StorageBirth{id, size, StorageKind::unknown, kJob, {}});
    return id;
  }
  void rank_newborn() {
    int rank = 0;
    for (const StorageId id : living_)
      if (lives[id].step == step_ && lives[id].spot.first == place_) lives[id].spot.second = rank++;
  }
  void death(std::size_t at) {
    trace.events.emplace_back(StorageDeath{living_[at], {}});
    living_.erase(living_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void run(const Line& line) {
    const Bytes size{line.size};
    if (line.what == Do::birth) return void(birth(size));
    if (line.what == Do::make) {
      std::vector<StorageId> read = pick(line.a);
      return op({.inputs = read, .outputs = {birth(size)}}, size);
    }
    if (living_.empty()) return;
    if (line.what == Do::death) return death(line.a % living_.size());
    const std::vector<StorageId> a = pick(line.a), b = pick(line.b);
    if (line.what == Do::run) op({.inputs = {a[0], b[0]}}, size);
    if (line.what == Do::write) op({.inputs = a, .outputs = b, .mutated = b, .aliased = b}, size);
    if (line.what == Do::view) op({.inputs = a, .outputs = a, .aliased = a}, size, /*view=*/true);
  }
  std::vector<StorageId> pick(std::uint32_t at) const {
    return living_.empty() ? std::vector<StorageId>{} : std::vector{living_[at % living_.size()]};
  }

  void op(Op op, Bytes workspace, bool view = false) {
    op.index = OpIndex{ops_++};
    op.name = NameId{0};
    op.job = kJob;
    op.step = StepIndex{static_cast<std::uint32_t>(step_)};
    op.transient = workspace;
    for (const StorageId id : op.outputs)
      if (op.aliased.empty()) op.transient += lives[id].size;
    if (last()) note(op, workspace, view);
    trace.events.emplace_back(std::move(op));
    rank_newborn();
    ++place_;
  }
  void note(const Op& op, Bytes workspace, bool view) {
    for (const StorageId id : living_) lives[id].alive.insert(place_);
    workspaces.push_back(workspace);
    if (view) return;
    for (const StorageId id : op.inputs) lives[id].touched[place_].reads = true;
    for (const StorageId id : op.mutated) lives[id].touched[place_] = {true, true, false};
    for (const StorageId id : op.outputs)
      if (op.aliased.empty()) lives[id].touched[place_] = {false, true, true};
  }

  int steps_, step_ = -1, place_ = 0;  // no step yet
  std::uint32_t ops_ = 0;
  std::vector<StorageId> living_;
};

std::vector<Gap> expected_gaps(const LoopRun& run, StorageId id, StoragePlace place) {
  const Life& life = run.lives.at(id);
  const int n = run.ops();
  const Life* twin = life.after ? run.twin_of(id) : nullptr;
  const auto continues = [&] {
    for (const auto& [other, unused] : run.lives)
      if (run.lives.at(other).after && run.twin_of(other) == &life) return true;
    return false;
  };
  const auto at = [&](int p) -> const Life* { return p < n ? &life : twin; };
  const auto idle = [&](int p) { return at(p) && at(p)->alive.contains(p % n) && !at(p)->touched.contains(p % n); };
  std::vector<Gap> gaps;
  if (n == 0) return gaps;
  if (life.before && life.after && life.touched.empty())
    return {{place, 0, static_cast<OpPlace>(n), 0, GapEnd::unseen}};
  for (int p = 0; p <= n; ++p) {  // at n: used by the last op, idle from the next step on
    if (!idle(p)) continue;
    int end = p;
    while (end < 2 * n && idle(end)) ++end;
    std::uint32_t version = 0;
    for (const auto& [op, touch] : life.touched) version += op < p && touch.writes;
    const bool lost = end == n && life.after && twin == nullptr;
    const bool touched = !lost && end < 2 * n && at(end) && at(end)->touched.contains(end % n);
    const GapEnd ends = lost ? GapEnd::unseen : touched ? GapEnd::access : GapEnd::death;
    if (p > 0 || !life.before || !continues())
      gaps.push_back({place, static_cast<OpPlace>(p), static_cast<OpPlace>(end), version, ends});
    p = end;
  }
  return gaps;
}

void check_storage(const LoopRun& run, const Liveness& liveness, StoragePlace place) {
  const LiveStorage& storage = liveness.storages()[place];
  const Life& life = run.lives.at(storage.id);
  std::set<int> alive;
  for (OpPlace op = storage.birth; op < storage.death; ++op) alive.insert(static_cast<int>(op));
  RC_ASSERT(alive == life.alive);
  RC_ASSERT(storage.before == life.before && storage.after == life.after && storage.size == life.size);
  std::vector<Access> accesses;
  std::vector<OpPlace> writers;
  for (const auto& [op, touch] : life.touched) {
    const auto at = static_cast<OpPlace>(op);
    accesses.push_back({at, place, static_cast<std::uint32_t>(writers.size()), touch.reads, touch.writes, touch.makes});
    if (touch.writes) writers.push_back(at);
  }
  RC_ASSERT(std::ranges::equal(liveness.accesses_of(place), accesses));
  RC_ASSERT(std::ranges::equal(liveness.writers_of(place), writers));
}

void check_curve_and_floor(const LoopRun& run, const Liveness& liveness) {
  const LiveCurve curve = live_curve(liveness);
  Bytes peak, floor;
  for (int op = 0; op < run.ops(); ++op) {
    Bytes live, needed;
    for (const auto& [id, life] : run.lives) {
      if (life.alive.contains(op)) live += life.size;
      if (life.touched.contains(op)) needed += life.size;
    }
    const Bytes workspace = run.workspaces[static_cast<std::size_t>(op)];
    RC_ASSERT(curve.live[static_cast<std::size_t>(op)] == live);
    RC_ASSERT(curve.during[static_cast<std::size_t>(op)] == live + workspace);
    peak = std::max(peak, live + workspace);
    floor = std::max(floor, needed + workspace);
  }
  RC_ASSERT(curve.peak == peak);
  RC_ASSERT(find_floor(liveness).bytes == floor);
  RC_ASSERT(floor <= peak);
}

void check_in_out(const Liveness& liveness) {
  const InOutSets sets(liveness);
  for (OpPlace op = 0; op < liveness.op_count(); ++op) {
    const auto in = sets.in(op), out = sets.out(op);
    std::set<StoragePlace> after(in.begin(), in.end());
    for (const Access& access : liveness.accesses_at(op)) {
      RC_ASSERT(access.makes || after.contains(access.storage));
      if (access.makes) after.insert(access.storage);
    }
    for (const StoragePlace gone : sets.freed_after(op)) RC_ASSERT(after.erase(gone) == 1u);
    RC_ASSERT(std::ranges::equal(out, after));
    if (op + 1 == liveness.op_count()) break;
    for (const StoragePlace place : sets.in(op + 1))
      RC_ASSERT(after.contains(place) || liveness.storages()[place].birth == op + 1);
  }
}

TEST(LivenessOracle, AgreesWithASlowReadingOfTheEvents) {
  const bool ok = rc::check("liveness of the last step", [](const std::vector<Line>& lines) {
    const int steps = *rc::gen::inRange(1, 4);
    const LoopRun run(lines, steps, *rc::gen::inRange<std::uint32_t>(0, 4));
    RC_ASSERT(check_trace(run.trace).empty());
    const Liveness liveness(run.trace, *find_step(run.trace, StepIndex{static_cast<std::uint32_t>(steps - 1)}));
    RC_ASSERT(liveness.op_count() == static_cast<OpPlace>(run.ops()));
    std::vector<Gap> gaps;
    for (StoragePlace place = 0; place < liveness.storage_count(); ++place) {
      check_storage(run, liveness, place);
      const auto more = expected_gaps(run, liveness.storages()[place].id, place);
      gaps.insert(gaps.end(), more.begin(), more.end());
    }
    RC_ASSERT(find_gaps(liveness) == gaps);
    check_curve_and_floor(run, liveness);
    check_in_out(liveness);
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace spillway
