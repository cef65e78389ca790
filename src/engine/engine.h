// One training process under a byte budget: which storages are on the device, who must leave, who comes back.
//
// The adapter tells of memory asked for and given back, of ops about to run and done; the engine keeps
//
//   bytes taken from the device (fragmentation and copies under way included)  <=  budget,  at every instant
//
// and makes every argument resident before its op reads. One lock guards the books; it is never held during a copy, a
// wait or a kernel. Tensors and storages are reached only through Owner, which is asked to promote a storage without
// the lock held (Note [Promote outside the lock]).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "arena/arena.h"
#include "base/quick_mutex.h"
#include "device/device.h"
#include "engine/apart.h"
#include "engine/calm.h"
#include "engine/course.h"
#include "engine/doubt.h"
#include "engine/early.h"
#include "engine/host_pace.h"
#include "engine/layout.h"
#include "engine/minutes.h"
#include "engine/options.h"
#include "engine/planner.h"
#include "engine/planning_time.h"
#include "engine/policy.h"
#include "engine/recipe.h"
#include "engine/record.h"
#include "engine/record_table.h"
#include "engine/repertoire.h"
#include "engine/returns.h"
#include "engine/stalls.h"
#include "engine/stats.h"
#include "engine/step_recorder.h"
#include "engine/step_store.h"
#include "engine/study.h"
#include "engine/tape.h"
#include "swap/mover.h"

namespace spillway {

// Note [Promote outside the lock]
// A storage may die on another thread at any time, and taking or dropping a reference to it may need the interpreter's
// lock. So an eviction picks its victim under the engine's lock, lets go of it, promotes the storage, takes the lock
// again and looks whether the victim still qualifies. Names are asked for outside too; whoever gives a storage one shows its
// memory afterwards, with the lock, so a victim that was shown meanwhile stays.
class Owner {
 public:
  virtual ~Owner() = default;
  // With the lock: a token that outlives the storage; null when there is none. Consumed by `hold`.
  [[nodiscard]] virtual void* weak(Record& record) = 0;
  // Without the lock: keeps the storage alive; null when it died.
  [[nodiscard]] virtual void* hold(void* weak) = 0;
  virtual void unhold(void* held) = 0;
  // Without the lock: whether the interpreter refers to the storage by name and may read its bytes at any time.
  [[nodiscard]] virtual bool is_named(void* /*held*/) { return false; }
  // With the lock, the storage held: false when it no longer holds this block (its memory was replaced behind our back).
  [[nodiscard]] virtual bool may_detach(Record& record) = 0;
  virtual void detach(Record& record) = 0;
  virtual void attach(Record& record) = 0;
  // With the lock: the record forgets its storage.
  virtual void disown(Record& record) = 0;
  // Without the lock, on the thread that needs the bytes: runs the recipes of a dropped record and hands the result
  // back through Engine::finish_rebuild. May throw what the operator throws.
  virtual void rebuild(Record& record) = 0;
  // With the lock: memory was waited for while an op is timed.
  virtual void waited_for_memory() {}
  // With the lock: what the calling thread enqueues goes into a graph, and nothing of ours may.
  [[nodiscard]] virtual bool records_graph() const { return false; }
  // Without the lock, around a wait for other threads: lets go of what they may need to get on.
  [[nodiscard]] virtual void* begin_pause() { return nullptr; }
  virtual void end_pause(void* /*held*/) {}
};

class Engine;

// As long as it lives no other thread's op runs: see Note [A turn alone]. Not with the engine's lock held.
class Turn {
 public:
  explicit Turn(Engine& engine);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Engine& engine_;
};

// As long as it lives, whether what runs on this thread can be given up for another and run once more.
class ComesAgain {
 public:
  explicit ComesAgain(bool may);
  ~ComesAgain();
  ComesAgain(const ComesAgain&) = delete;
  ComesAgain& operator=(const ComesAgain&) = delete;

 private:
  const bool before_;
};

class Engine {
 public:
  using Lock = std::unique_lock<QuickMutex>;

  // `source`: where device memory comes from; none: an arena of the device's own.
  Engine(Device& device, Owner& owner, StreamId compute, const EngineOptions& options,
         std::unique_ptr<BlockSource> source = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] Lock lock() const { return Lock(mutex_); }

  // --- memory: these take the lock themselves -----------------------------------------------------------------------
  // Null when nothing more can leave. `maker`: the name of the operator that asks, for whoever asks where bytes come from.
  [[nodiscard]] Record* try_allocate(Bytes size, StreamId on, const char* maker = nullptr);
  // The memory at this address is no longer needed. False: it is not ours.
  [[nodiscard]] bool free(void* data);
  // Work on this stream uses the memory at this address, too.
  void note_stream(const void* data, StreamId stream);
  // An evicted storage died.
  void died(Record* record);

  // --- ops: with the lock -------------------------------------------------------------------------------------------
  [[nodiscard]] Record* find(const void* data) const { return table_.find(data); }
  // Pins what the op uses and brings it home; lets go of the lock while it waits. Empty on success, otherwise nothing is
  // pinned and the op must not run. What the op writes gets a new epoch here, before the op runs.
  [[nodiscard]] std::optional<Shortage> acquire(std::span<const Use> uses, StreamId on, Lock& lock);
  void release(std::span<const Use> uses);
  // It stays until it is unpinned.
  void pin(Record* record);
  void unpin(Record* record);
  // The record is this storage's memory from now on.
  void adopt(Record* record, void* owner);
  // Its address is about to leave our sight: see apart.h. Not for what is pinned.
  void set_apart(Record* record, Lock& lock);
  // Its address left our sight.
  void hold_for_life(Record* record);
  // Its address left our sight until end_loan; the record lives until then, whatever becomes of its storage.
  void lend(Record* record, Lock& lock);
  void end_loan(Record* record, Lock& lock);
  // Its bytes may have been changed outside any op.
  void note_outside_write(Record* record, Lock& lock);
  // A region's kernels are out of sight: it is one op. What it keeps, and what is made in it, cannot leave until it ends,
  // and the floor counts all of it at once.
  void begin_region();
  void keep(Record* record);
  void end_region(std::span<Record* const> kept);
  // The interpreter refers to its storage by name. It may no longer: whoever is refused memory, or about to raise the floor for
  // it, asks again.
  void note_name(Record* record);
  void loosen(Record* record, bool loose);
  void lose_name(Record* record);
  // Counted among what cannot leave, whoever uses it.
  [[nodiscard]] bool stays(const Record& record) const { return record.kept > 0 || movable_bytes(record) == 0_B; }
  // Starts the count of what one op of this thread allocates, until end_op; `note_op`, before that, raises the floor.
  [[nodiscard]] std::uint64_t begin_op();
  void end_op();
  // Of the op that runs: what it has made and not freed, and the most of that.
  [[nodiscard]] Bytes made_in_op() const;
  [[nodiscard]] Bytes peak_in_op() const;
  struct OpBytes { Bytes inputs, outputs, transient; };
  // May let go of the lock.
  void note_op(const OpBytes& bytes, const std::string& name, Lock& lock);

  // --- recipes: with the lock ---------------------------------------------------------------------------------------
  // Whether anybody might be dropped, or a trace is to tell what rebuilds would take: recipes are of no use otherwise. In a run
  // that is calm, whoever has to leave after all moves.
  [[nodiscard]] bool wants_recipes() const { return may_drop_any() && (!calm_ || recorder_.on() || tape_.on()); }
  void set_recipe(Record* record, Recipe* recipe);
  void append_recipe(Record* record, Recipe* recipe);
  void clear_recipes(Record* record);
  // The bytes of `made`, a temporary that ends with this, become those of the record that is being rebuilt; `replays`
  // are the ops that ran for them.
  void finish_rebuild(Record* record, Record* made, std::span<const ReplayNote> replays);
  // An op ran again, and made `temporary`; null: finish_rebuild will tell whom it was for.
  void note_replay(const Record* temporary, const ReplayNote& replay);
  // The sides of a lean rebuild of the record, if that is possible now: nobody frees or changes them until they are
  // returned. See Note [Lean rebuilds].
  [[nodiscard]] std::vector<Record*> borrow_sides(const Recipe& recipe, const Record& wanted);
  void return_sides(std::span<Record* const> sides);
  // What a rebuild made on its way, its storage having given up the block: it may leave and is brought home by `acquire` like
  // any other, until it is returned as a side is. So a rebuild needs no more room at once than its largest op.
  void keep_temporary(Record* temporary);
  // Recipes nobody needs any more, in exchange for an empty list: the caller disposes of them without the lock.
  void take_dying(std::vector<Recipe*>& into) { into.swap(dying_); }
  [[nodiscard]] std::uint64_t step() const { return step_; }

  // With the lock: the trace this engine writes, if any.
  [[nodiscard]] Tape& tape() { return tape_; }
  // With the lock. Throws InputError when the file cannot be written.
  void open_trace(const std::string& path, const WriterOptions& kept = {});
  void open_trace(std::unique_ptr<TraceWriter> writer);

  // --- plans: with the lock -----------------------------------------------------------------------------------------
  // An op is about to run; `key` tells it from others.
  void steer_before(OpKey key, Phase phase, Lock& lock);
  // It has run, and its pins are dropped.
  void steer_after(std::span<const Use> uses, std::span<Record* const> outputs, Lock& lock);
  // Whether steer_after would do anything for the op that steer_before was told of.
  [[nodiscard]] bool wants_after() const { return watches_all() || (course_.on && course_.script->acts_after(course_.next - 1)); }
  // The same, of the op that it will be told of next.
  [[nodiscard]] bool next_wants_after() const { return watches_all() || (course_.on && course_.script->acts_after(course_.next)); }
  [[nodiscard]] bool steers() const { return course_.on || opening_.on() || watches_all(); }
  // This step has gone by a plan so far.
  [[nodiscard]] bool is_on_course() const { return course_.on; }
  // Whether every op is to be told by note_step_op, and whether its time on the device matters.
  [[nodiscard]] bool wants_ops() const { return tape_.on() || recorder_.on(); }
  [[nodiscard]] bool wants_times() const { return recorder_.on_planned_step() || retimes_ || (tape_.on() && !course_.on); }
  // How far the host should be ahead of the device in the step that begins: see Note [Times of a step without a plan].
  [[nodiscard]] Nanos wanted_lead() const;
  void note_step_op(const OpNote& note, OpKey key);
  // The following are what a run that is played again is told, instead of planning itself: see minutes.h. Null: no script.
  void follow(std::shared_ptr<const Script> script, Lock& lock);
  struct Joining {
    std::shared_ptr<const Script> script;
    Bytes limit;           // as Course's
    std::size_t next = 0;  // its op that comes next
    std::vector<bool> spared;
  };
  // In the middle of a step: what should be on its way back is due.
  void join_course(Joining at);
  void move_house(Lock& lock);
  [[nodiscard]] bool has_gap(std::uint32_t gap) const { return gap < course_.gone.size(); }
  Nanos settled_now(Lock& lock);
  void take_over_need(Bytes need) { returns_.need = need; }
  void take_over_leads(std::vector<Lead> leads) { course_.leads.take_over(std::move(leads)); }
  void take_over_rates(double out_nanos_per_byte, double in_nanos_per_byte);
  void begin_step();
  // Without the lock. False: neither holds until the step ends, since nothing of that begins in the middle of one.
  [[nodiscard]] bool follows_ops() const { return follows_.load(std::memory_order_relaxed); }

  // --- several threads: see Note [A turn alone] ---------------------------------------------------------------------
  // Without the lock: around a wait for another thread that is not the engine's own. What this one pins stays as long.
  void begin_waiting();
  void end_waiting();
  // With the lock: no op of another thread runs until the turn has ended.
  void begin_turn(Lock& lock);
  void end_turn();
  // Whether an op may lack memory that another attempt would find: somebody had to leave, or ops of several threads ran at once.
  [[nodiscard]] bool may_lack_memory() const { return is_tight() || crowds_.load(std::memory_order_relaxed); }

  // --- control: these take the lock themselves ----------------------------------------------------------------------
  // `times`: of the ops since the last step's end, where wants_times() was true and the device measures. They may be told later
  // where takes_times_later() says so.
  void end_step(const StepTimes& times = {});
  // With the lock: what the step that ends now teaches is for later steps, so nobody waits for its last op.
  [[nodiscard]] bool takes_times_later() const { return repertoire_.varies() && !tape_.on(); }
  // Empty: watch only from now on.
  void set_budget(std::optional<Bytes> budget);
  // False: what cannot leave is more than that, and the budget stays what it was.
  [[nodiscard]] bool try_set_budget(std::optional<Bytes> budget);
  void set_policy(ReactivePolicy policy, Leave leave, const PlanPolicy* plans);
  // What is known of the device from now on.
  void set_costs(const Costs& costs, double move_nanos_per_byte);
  // What is home may have been written by ops nobody told us of: no copy of it below is good, nothing is rebuilt from it.
  void trust_nothing();
  // What this run records is kept there for the next, and the plan it settles in; what one before it left is used from its first
  // step on.
  void use_store(StepStore store);
  // Counts and peaks start again from what is there now.
  void reset_stats();
  // Opens lower tiers where none are: an engine that only watched so far gets a budget.
  void open_tiers(const MoverOptions& tiers);
  [[nodiscard]] bool has_tiers() const { return mover_.has_tiers(); }
  // Bytes of the device that others hold and that count against the budget. Makes room for them.
  void set_outside(Bytes outside);
  // The same for what is about to be taken: false, and nothing has changed, when there is no room and, if anybody may leave, none can be made.
  [[nodiscard]] bool try_set_outside(Bytes outside, bool may_evict);
  // Gives free memory back to the device; with `wait`, also what enqueued work still uses.
  void trim(bool wait = false);
  // Waits for every copy that is under way.
  void settle_copies();
  // The peaks told by `recent_peaks` start again from what is there now.
  void reset_recent_peaks();
  void evict_all(Leave leave);
  // For tests. False: it may not leave now, or cannot be rebuilt.
  [[nodiscard]] bool try_drop(Record* record);
  // Everything leaves, however small: memory in pieces becomes one.
  void empty_out();
  // Something had to leave since the start.
  [[nodiscard]] bool is_tight() const { return tight_.load(std::memory_order_relaxed); }
  // False: not everything fits; what could come home is home.
  [[nodiscard]] bool bring_all_home();

  // Note [Forked children]
  // A child has the arena as private copies and none of the other threads: it only restores, inline and without a limit,
  // and moves nothing out. Copies under way are waited for before the fork, and every lock below is held across it. What
  // it restores from the file stays there as long as it does: see Note [Children and the file].
  void before_fork();
  void after_fork(bool child);
  [[nodiscard]] bool is_child() const { return child_; }

  [[nodiscard]] EngineStats stats() const;
  [[nodiscard]] RecentPeaks recent_peaks() const;
  // What one allocation could have once everything has left that may.
  [[nodiscard]] Bytes most_available() const;
  // With the lock: every record whose bytes are on the device.
  template <class Visit>
  void for_each_resident(Visit visit) const { table_.for_each(visit); }
  [[nodiscard]] Shortage shortage(Bytes asked) const;  // with the lock
  // Where places may be; empty: nowhere.
  [[nodiscard]] Range placed() const { return {arena_.placed_from(), arena_.placed_from() == 0_B ? 0_B : options_.address_space}; }
  // With the lock: of everything that lives, wherever its bytes are. What leaves or comes back changes nothing.
  [[nodiscard]] Bytes whole() const { return live_ + absent_; }
  [[nodiscard]] const EngineOptions& options() const { return options_; }
  // In the user's word.
  [[nodiscard]] std::string_view policy_name() const { return options_.plans != nullptr ? options_.plans->name : name_of(options_.policy); }
  [[nodiscard]] StreamId compute() const { return compute_; }

 private:
  // In its place, if it has one. `returns`: who comes back; null: it is for something new.
  [[nodiscard]] std::optional<Block> take(Bytes size, StreamId on, Lock& lock, const Record* returns);
  // The same, and nobody leaves for it except who lies in its place without a right to it. `only`: in its place or not yet.
  [[nodiscard]] std::optional<Block> try_take(Bytes size, StreamId on, Lock& lock, const Record* returns, bool only = false);
  [[nodiscard]] std::optional<Layout::Place> find_place(Bytes size, const Record* returns) const;
  [[nodiscard]] bool clear_the_way(Range range, Lock& lock);
  [[nodiscard]] bool try_copy_apart(Record& record);
  void free_block(const Block& block, std::span<const Tick> last_uses);
  [[nodiscard]] bool make_room(Bytes size, Lock& lock);
  [[nodiscard]] std::vector<Record*> pick_victims(Bytes size) const;
  [[nodiscard]] double staleness(const Record& record) const;
  void evict_all(Leave leave, Lock& lock);
  // Lets go of the lock while it asks.
  struct Held { void* storage; bool named; };
  [[nodiscard]] Held hold(Record& record, Lock& lock);
  [[nodiscard]] bool may_detach(Record& record);
  void drop_pin(Record* record);
  void add_recipe(Record* record, Recipe* recipe);
  void forget_recipes(Record* record);
  void note_write(Record* record, Lock& lock);
  void end_sides(std::span<Record* const> sides);
  void begin_minutes();
  void evict_these(std::vector<Record*>& records, Leave leave, Lock& lock);
  // `gap`: of the plan that wants it; none: to make room.
  [[nodiscard]] bool evict(Record* victim, Leave leave, Lock& lock, std::optional<std::uint32_t> gap = std::nullopt);
  [[nodiscard]] bool let_go(Record& record, Leave leave, std::optional<std::uint32_t> gap);
  [[nodiscard]] bool move_out(Record& record);
  [[nodiscard]] StallTimes lower_waits() const;
  void trace_lower_waits(const StallTimes& before);
  [[nodiscard]] Tick poison(const Record& record, std::span<const Tick> uses);
  [[nodiscard]] bool may_leave(const Record& record) const;
  // Who would not leave is not asked again before this changes: with the next op, or the next request after one that failed.
  [[nodiscard]] std::uint64_t asking() const { return clock_ + refusals_ + 1; }
  // What rebuilding a record would take, and whether it can be done at all.
  struct Survey {
    bool legal = false;
    Bytes bytes;  // of the record and its dead ancestors
    Nanos time;
  };
  [[nodiscard]] Survey survey(const Record& record, bool planned = false) const;
  [[nodiscard]] bool may_be_lean(const Recipe& recipe, const Record& wanted) const;
  [[nodiscard]] const Recipe* straight_from(const Recipe& recipe) const;
  [[nodiscard]] bool may_drop(const Record& record, bool planned = false) const;
  [[nodiscard]] bool may_drop_any() const { return (options_.budget || tape_.on()) && options_.leave != Leave::move; }
  [[nodiscard]] bool is_calm() const;
  [[nodiscard]] std::optional<Shortage> try_gather(std::span<const Use> uses, Lock& lock);
  [[nodiscard]] std::optional<Shortage> gather_beside_others(std::span<const Use> uses, Lock& lock);
  [[nodiscard]] const Record* gather(std::span<const Use> uses, Lock& lock);
  [[nodiscard]] bool bring_home(Record* record, Lock& lock);
  [[nodiscard]] bool fetch(Record* record, Lock& lock);
  void rebuild(Record* record, Lock& lock);
  void rebuild_beside(Record* record, Lock& lock);
  void take_in(Record* record, Lock& lock);
  void arrive(Record& record, const Block& block);
  void settle(Record& record, const Block& block);
  // Ops are of interest whatever they are: sizes change, or a step goes without a plan and somebody may have to leave (returns.h).
  [[nodiscard]] bool watches_all() const { return repertoire_.watches() || (!course_.on && !at_ease_ && plans()); }
  [[nodiscard]] bool plans() const { return options_.plans != nullptr && options_.budget.has_value() && !child_; }
  void start_due(std::vector<std::uint32_t>& waiting, Bytes need, Lock& lock);
  void return_early(Phase phase, Lock& lock);
  void list_returns();
  void note_backward(std::span<const Use> uses);
  // Copies ahead of need: early.h.
  [[nodiscard]] Nanos op_time(std::span<Record* const> outputs);
  void note_time(std::span<Record* const> outputs, Lock& lock);
  void book_copies();
  void copy_early(Lock& lock);
  [[nodiscard]] bool begin_early(Lock& lock);
  void list_early();
  [[nodiscard]] bool is_idle(const Record& record) const;
  void prepare_early(Bytes more, Lock& lock);
  void copy_part();
  void drop_part();
  [[nodiscard]] bool finish_early(const Record& record);
  void begin_early_step();
  [[nodiscard]] bool try_prefetch(Record* record, Lock& lock);
  [[nodiscard]] static Record* find_part(const Leaving& leaving, std::span<const Use> uses, std::span<Record* const> outputs);
  void hold_beyond_death(std::span<const Use> uses, std::span<Record* const> outputs);
  void let_outliving_go(std::size_t before);
  void become_child();
  void steer_end_step(const StepTimes& times, Lock& lock);
  void begin_recording(bool sample = false);
  // Sizes change from step to step: vary.cpp.
  void watch_op(std::span<const Use> uses, std::span<Record* const> outputs, Lock& lock);
  void find_away();
  void end_varying_step(const StepTimes& times, Lock& lock);
  void do_later(Study::Job job, Lock& lock);
  void learn(std::shared_ptr<RecordedSteps> steps, const StepTimes& times, Lock& lock);
  void remember_later(std::shared_ptr<const RecordedSteps> steps, Lock& lock);
  void take_lessons(Lock& lock);
  void plan_for_sizes(Lock& lock);
  void choose_size();
  [[nodiscard]] Bytes room_for_plans() const;
  [[nodiscard]] bool is_worth_following(const Prediction& offered) const;
  // `outdated`: the script at hand is no good any more.
  void start_planning(SearchFrom from, bool outdated = true);
  void plan_anew(SearchFrom from = SearchFrom::nothing);
  [[nodiscard]] bool is_time_to_retime() const;  // of ops measured again: retime.cpp
  void retime(const std::vector<Nanos>& durations, Lock& lock);
  void plan_with_more_slack();
  void plan_with_more_open();
  void count_open(const Block& block, int sign);
  [[nodiscard]] bool take_over_link();
  void follow_link();
  void follow_lateness(bool as_planned);
  void follow_host();
  void follow_drift(bool as_planned);
  void settle_layout(bool followed, Lock& lock);
  void change_course(Lock& lock);
  [[nodiscard]] bool is_doubtful() const;
  void begin_doubt(Lock& lock);
  void end_doubted_step(Lock& lock);
  void note_recorded_time(Lock& lock);
  void adopt_places(std::shared_ptr<const Places> places, Lock& lock);
  [[nodiscard]] std::function<void(Bytes, const std::function<bool()>&)> preparing();
  [[nodiscard]] Ground ground() const { return {.from = arena_.placed_from(), .limit = arena_.limit(), .alignment = options_.alignment, .granule = options_.granule, .open = open_need_}; }
  // What runs before left: recall.cpp.
  void look_at_opening(OpKey key, Lock& lock);
  void look_for_kept(Lock& lock);
  [[nodiscard]] bool is_good_here(const KeptRun& run) const;
  [[nodiscard]] std::optional<KeptRun> recall();
  [[nodiscard]] bool end_opening(Lock& lock);
  void begin_warm(std::shared_ptr<const Script> script, Lock& lock);
  void remember(const std::shared_ptr<const RecordedSteps>& steps, Lock& lock);
  void keep_plan(Lock& lock);
  void save(StepKey key, const KeptSteps& kept, Lock& lock);
  void leave_plans();
  void plan_for_budget();
  void before_write(Record* record, Lock& lock);
  void turn_drops_into_moves(std::span<const Use> uses, Lock& lock);
  void turn_drop_into_move(Record* record, Lock& lock);
  void undrop(Record& record);
  void forget_copy(Record& record);
  void give_back(Record& record);
  void collect_leaves(const Record& record, std::vector<Record*>& leaves) const;
  void inherit_leaves(Record& dead);
  [[nodiscard]] bool try_spare(Record& dead);
  [[nodiscard]] bool heirs_do_without(Record& dead, bool planned) const;
  void collect_needed(const Record& record, std::unordered_set<const Record*>& needed) const;
  void forget_old_recipes();
  void dispose(Record* orphan);
  void dispose_if_unneeded(Record* record);
  void bury(Record* record);
  void unref(Record* record);
  void release_recipes(Record& record);
  void count(const Record& record, int sign);
  // What changes of a record on the device may change whether it can leave.
  template <class Act>
  void recount(Record& record, Act act);
  [[nodiscard]] Bytes movable_bytes(const Record& record) const;
  void note_absent(const Record& record, int sign);
  [[nodiscard]] double comeback_nanos(const Record& record) const;
  void pause(Lock& lock);
  [[nodiscard]] bool wait_for_others(Lock& lock);
  void wait_for_turns(Lock& lock);
  void begin_flight();
  void end_flight();
  void meter(Bytes more);
  [[nodiscard]] std::vector<Tick>& last_uses(const Record& record);
  [[nodiscard]] std::uint64_t meet(StreamId stream);
  void note_reserved();
  [[nodiscard]] static Bytes needed(const OpBytes& bytes);
  void raise_floor(const OpBytes& bytes, const std::string& name, Lock& lock);
  void note_new(Bytes size, Lock& lock);
  // Who has lost its name can leave again. Returns their bytes.
  Bytes ask_for_names(Lock& lock);
  [[nodiscard]] Bytes& reason_to_stay(const Record& record, Shortage& why) const;
  [[nodiscard]] static Bytes not_there(std::span<const Use> uses);
  void forget_name(Record& record);
  void note_region();
  void trace_room_wait(Nanos took);
  struct Arrival { Record* record; Tick tick; StallCause cause; };
  void wait_for_arrival(const Arrival& arrival, StreamId on, Lock& lock);
  [[nodiscard]] bool ask(Tick tick);
  [[nodiscard]] std::optional<Tick> wait_beside_host(StreamId on, Tick awaited, bool late);
  [[nodiscard]] bool is_late(StreamId on, Tick awaited);
  void note_wait(const StreamWait& wait);
  void settle_waits();
  [[nodiscard]] Bytes limit_beside(Bytes outside) const;
  Bytes shrink_to_limit(Lock& lock);  // how far it still is above it

  Device& device_;
  Owner& owner_;
  const StreamId compute_;
  EngineOptions options_;
  const std::unique_ptr<BlockSource> source_;
  BlockSource& arena_;
  Mover mover_;

  mutable QuickMutex mutex_;
  Change changed_;
  RecordShelf shelf_;
  RecordTable table_;
  std::vector<Record*> by_chunk_;
  Tape tape_;
  Minutes minutes_{tape_};
  std::uint32_t storages_ = 0;
  RecordList dropped_, away_, gone_, named_;
  std::vector<Recipe*> dying_, unneeded_;  // the latter is scratch of release_recipes
  std::vector<Tick> last_uses_;
  std::uint64_t clock_ = 0, step_ = 0, refusals_ = 0;  // the last: requests for memory that came after one that failed
  bool refused_ = false;        // the latest one failed
  mutable std::uint64_t surveys_ = 0;
  // Ops that hold pins: all of them, those of threads that wait, of threads that wait for a turn. See turns.cpp.
  int in_flight_ = 0, waiting_ = 0, queued_ = 0;
  int patient_ = 0;                 // threads that wait for memory and could give up
  bool asked_to_give_up_ = false, turn_taken_ = false;  // one of them was asked; somebody has the turn
  std::atomic<bool> crowds_{false};  // ops of several threads have run at once
  Bytes absent_;        // of living storages whose bytes are not on the device
  int rebuilding_ = 0, emptying_ = 0;  // the latter: threads in empty_out, where nobody is too small to leave
  std::atomic<bool> tight_{false};
  bool at_ease_ = false;            // nobody left in the last step, nor in this one so far
  Calm repose_;
  bool calm_ = false;               // at ease, for a while already, and there is room below for everybody
  bool refused_below_ = false;      // ever: somebody found no room there
  Bytes asked_;                     // of all storages so far
  std::int64_t evictions_then_ = 0;  // when the last step ended
  std::atomic<bool> follows_{true};  // as the last step ended; whoever switches something on says so
  bool child_ = false;  // see Note [Forked children]
  std::uint32_t most_stream_ = 0;  // the largest number of a stream met
  Bytes live_, peak_live_, evictable_;
  Bytes in_ops_;        // made by ops that run now, of all threads: nobody has seen it yet
  int regions_ = 0;     // that have begun and not ended
  Bytes kept_, cannot_leave_before_;  // by regions, of what could leave otherwise; when the first of them began
  Bytes outside_, peak_reserved_;  // the peak counts what is outside, too
  std::uint64_t commits_ = 0;      // of the arena, when its bytes were last counted
  RecentPeaks recent_;
  EngineStats stats_;
  PlanningTime planning_time_{device_, stats_.planning};
  StreamWaits waits_;
  StepRecorder recorder_;
  std::shared_ptr<const RecordedSteps> recorded_;
  Nanos recorded_from_;
  std::optional<Nanos> recorded_time_;  // of the step to plan, which goes without a plan, on the host's clock
  bool recorded_late_ = false;           // the device waited for the host in it, by its own measure
  int reactive_steps_ = 0;               // until one is recorded anew
  Doubt doubt_;
  bool retimes_ = false;                 // the ops of this step are measured again
  int retimings_ = 0;                    // of what is recorded
  HostPace pace_;                        // in steps by its plans
  Planner planner_;
  Course course_;
  Returns returns_;
  Early early_;
  Repertoire repertoire_;
  std::uint64_t op_shape_ = 0;  // of the op that runs
  Opening opening_;
  StepStore store_;
  KnownSteps known_;  // from the store, or for it
  std::shared_ptr<const Script> left_;  // the script that was left there last
  Layout layout_;
  Bytes open_, open_peak_;  // of blocks outside the placed part, now and at their most in this step
  Bytes open_need_;         // what plans leave for them; zero: what they think
  Apart apart_;
  bool moved_house_ = false;
  int moves_ = 0, placed_steps_ = 0;  // the latter: by the places in use, from the first op to the last
  std::int64_t remaps_ = 0;  // until the step at hand
  int link_pause_ = 0, next_link_pause_ = 4;  // steps with another link until plans follow it; the same after that
  std::int64_t slack_ = 0;  // percent of the budget that plans leave free
  std::vector<Repertoire::Lesson> lessons_;  // not taken in yet
  bool choosing_ = false, sated_ = false;  // the next size to plan for; there was none, and nothing has changed since
  std::int64_t rests_until_ = 0;  // the step before which nobody plans for a size that was not asked for
  Study study_;             // the last: it ends before what its jobs use
};

template <class Act>
void Engine::recount(Record& record, Act act) {
  const Bytes before = movable_bytes(record);
  act();
  (record.kept > 0 ? kept_ : evictable_) += movable_bytes(record) - before;
  if (regions_ > 0) note_region();
}

}  // namespace spillway
