// The minutes of a run: what the engine was asked and what it was answered, in order, so that the run can be played again.
//
// What an engine does hangs on its options, on these, and on nothing else: no clock, no address, no other order. When there is a
// plan, and which, does hang on the clock; so the scripts a run goes by, and when it takes to each, are told as if they had been asked
// for. What is asked while the engine has asked for a rebuild stands between `rebuild` and `rebuilt`. Storages are told by their
// numbers, which are those of the trace when it begins with the first of them. The words of each kind of call:
//
//   allocate        size, stream              set_recipe, append_recipe   storage, and the recipe unless the one before has it too
//   acquire         stream, 2 * storage + writes for each use             (recipe_words)
//   release         how many                  finish_rebuild              storage, temporary, replays of four words each
//   adopt           storage, has an owner     note_replay                 temporary + 1 or 0, one replay
//   loosen          storage, loose            borrow_sides                storage, which of its recipes
//   set_budget, ... bytes + 1 or 0            set_policy                  policy, leave
//   trim, evict_all how                       answer, rebuilt             yes or no
//   refused         storage, alive, named, may go                         before  shape, sized, phase
//   after           need, how many uses, each as above, the outputs       script  some of its words (script_words.h)
//   follow          script + 1 or 0                                       join    script + 1, limit, next op, gaps that are spared
//   lead            op, gap of each           reckon  bits of both rates  all others: the storages, if any
//
// Scripts are numbered from 0 in the order in which they are told; what `script` tells is the next one's until `follow` or `join`.
//
// One thread: when another asks, the minutes end with `lost`; but where a kernel runs on several, any of these may take memory and
// give it back, one call after the other. Belongs to the engine's lock.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "engine/leads.h"
#include "engine/record.h"
#include "engine/script.h"
#include "engine/tape.h"
#include "trace/event.h"

namespace spillway {

class Minutes {
 public:
  explicit Minutes(Tape& tape) : tape_(tape) {}

  // From now on, while the tape is on.
  void begin();
  [[nodiscard]] bool on() const { return on_ && tape_.on(); }
  // Not everything is told any more.
  void end();

  // A call about memory is under way, and may let go of the lock: another such call waits until it is over. One that itself waits
  // for others, or for a lock that they hold, may wait for that very call: then the minutes end.
  class Call {
   public:
    template <class Lock>
    Call(Minutes& minutes, Lock& lock) : minutes_(minutes), told_(minutes.on() && minutes.begin_call(lock)) {}
    ~Call() {
      if (told_) --minutes_.calls_;
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Minutes& minutes_;
    const bool told_;
  };

  // The call under way, if it is this thread's, waits for other threads.
  void begin_pause() { pauses_ += is_caller() ? 1 : 0; }
  void end_pause() { pauses_ -= is_caller() ? 1 : 0; }

  template <class... Word>
  void note(CallKind kind, Word... words) {
    if (on()) [[unlikely]] write(kind, std::array<std::uint64_t, sizeof...(Word)>{word_of(words)...});
  }
  void note_uses(StreamId on, std::span<const Use> uses);
  void note_records(CallKind kind, std::span<Record* const> records);
  void note_recipe(CallKind kind, const Record& record, const Recipe& recipe);
  void note_sides(const Recipe& recipe, const Record& wanted);
  void note_rebuild(const Record& record, const Record& made, std::span<const ReplayNote> replays);
  void note_replay(const Record* temporary, const ReplayNote& replay);
  // `need`: as Returns has it.
  void note_after(Bytes need, std::span<const Use> uses, std::span<Record* const> outputs);
  // Null: none.
  void note_follow(const std::shared_ptr<const Script>& script);
  void note_join(const std::shared_ptr<const Script>& script, Bytes limit, std::size_t next, const std::vector<bool>& spared);
  // Where they are others than those told last.
  void note_leads(const Leads& leads);
  // How fast copies are taken to be from now on.
  void note_rates(const Costs& costs);

 private:
  [[nodiscard]] static std::uint64_t word_of(const Record* record) { return record->id.index; }
  [[nodiscard]] static std::uint64_t word_of(StreamId stream) { return stream.index; }
  template <class Kind>
  [[nodiscard]] static std::uint64_t word_of(Quantity<Kind> quantity) { return static_cast<std::uint64_t>(quantity.count); }
  template <class Number>
  requires std::is_integral_v<Number> || std::is_enum_v<Number>
  [[nodiscard]] static std::uint64_t word_of(Number number) { return static_cast<std::uint64_t>(number); }
  void add(const ReplayNote& replay);
  void add(const Recipe& recipe);
  void add(std::span<const Use> uses);
  // Its number, and one.
  [[nodiscard]] std::uint64_t tell(const std::shared_ptr<const Script>& script);
  void write(CallKind kind, std::span<const std::uint64_t> words);
  void lose();
  [[nodiscard]] bool is_caller() const { return calls_ > 0 && caller_ == std::this_thread::get_id(); }
  template <class Lock>
  bool begin_call(Lock& lock) {
    using std::chrono::steady_clock;
    const steady_clock::time_point patience = steady_clock::now() + kPatience;
    while (calls_ > 0 && !is_caller()) {
      if (pauses_ > 0 || steady_clock::now() > patience) {
        lose();
        return false;
      }
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    caller_ = std::this_thread::get_id();
    ++calls_;
    return true;
  }

  static constexpr std::chrono::seconds kPatience{1};

  Tape& tape_;
  bool on_ = false;
  std::thread::id whose_, caller_;  // who runs ops; whose call is under way, if there is one
  int calls_ = 0;                   // of that thread, one inside the other
  int pauses_ = 0;                  // of that thread
  std::vector<std::uint64_t> words_;  // of the call that is told
  std::vector<std::shared_ptr<const Script>> scripts_;  // that were told
  std::vector<Lead> leads_;                             // told last
};

// Zero: no budget.
[[nodiscard]] inline std::uint64_t budget_word(std::optional<Bytes> budget) {
  return budget ? static_cast<std::uint64_t>(budget->count) + 1 : 0;
}

}  // namespace spillway
