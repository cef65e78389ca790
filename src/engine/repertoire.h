// Scripts for steps whose sizes change: made from forecasts for sizes rounded up, found by what a step's first ops show.
//
// Steps that were recorded teach the forecast. A step begins unknown; as soon as the numbers that make its signature have
// been seen, the script is taken that was made for the same size or a little more; failing that, for another size whose plan
// is enough here by the forecast (reuse.h), without what it moves or drops in vain. Where there is none the step is left
// to the reactive evictor. Either way one is wanted for the next time. Belongs to the engine's lock, except what takes long:
// `study` and `foresee` need none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/script.h"
#include "engine/step_recorder.h"
#include "forecast/forecast.h"

namespace spillway {

class Repertoire {
 public:
  // What a step taught.
  struct Lesson {
    std::shared_ptr<const StepKind> kind;
    std::shared_ptr<const RecordedSteps> steps;
    std::shared_ptr<Liveness> scratch;  // a copy of the kind's step, for steps foreseen: copying one takes longer than foreseeing
  };
  // Without the engine's lock, on any thread. Empty: there is nothing in it.
  [[nodiscard]] std::optional<Lesson> study(const std::shared_ptr<const RecordedSteps>& steps);
  // What is left of the lesson is no longer of use, and takes long to take down.
  void take_in(Lesson& lesson);
  // Both at once.
  void observe(const std::shared_ptr<const RecordedSteps>& steps);
  // Steps of one kind had different sizes: a single script will not do.
  [[nodiscard]] bool varies() const { return varies_; }
  // Whether recording the next step may teach something. Asked once a step, at its end; `strayed`: it left its course.
  [[nodiscard]] bool wants_samples(bool strayed = false);
  // The step began by a script: one that did not end by it was of another kind than was thought.
  void note_course(bool followed);
  // Whether recording this step does, as far as its first ops show. Once it watches no longer.
  [[nodiscard]] bool teaches() const;

  // --- the first ops of a step ---------------------------------------------------------------------------------------
  // `living`: the bytes of all who are on the device now.
  void begin_step(Bytes living = {});
  [[nodiscard]] bool watches() const { return watching_; }
  void stop_watching() { watching_ = false; }
  // By part: an op's storages.
  using Sizes = std::array<std::vector<Bytes>, 3>;
  void op(std::uint64_t shape, Sizes sizes);
  [[nodiscard]] std::size_t ops_seen() const { return seen_.size(); }
  struct Found {
    std::shared_ptr<const Script> script;  // null: there is none for this step
    bool fits = false;                     // it needs none: all of it has room in `room`
    bool reused = false;                   // it was made for another size
    bool extended = false;                 // somebody of its reserve leaves
    std::vector<bool> spared = {};         // by gap of the script: not needed here
    Bytes beside = {};                     // is there from step to step, and was not when the kind was first seen
  };
  // Once it watches no longer. A script made for more room than there is beside whoever lives on is taken only where it is enough.
  [[nodiscard]] Found find_script(Bytes room);

  // --- plans ---------------------------------------------------------------------------------------------------------
  // A size to make a script for.
  struct Order {
    std::shared_ptr<const StepKind> kind;
    std::shared_ptr<const RecordedSteps> steps;
    Signature at;
    bool quick = true;  // a first plan; later a better one
  };
  [[nodiscard]] bool is_asked() const;
  // How often all the scripts of a kind were replaced by others: more sizes come than there is room to plan for.
  [[nodiscard]] std::int64_t turnover() const;
  // What was asked for and not there, what was made when less was known, then whatever lies in the range of sizes; when all
  // of those are there, better ones.
  [[nodiscard]] std::optional<Order> next_order();
  struct Wanted {
    Order order;
    std::shared_ptr<const Liveness> step;  // as foreseen, for the size rounded up: with several coordinates, of all that are rounded to it the one with the largest peak
    Bytes margin;                          // how much more there may be
    Bytes peak;                            // of the step, were nobody to leave, with the margin
  };
  // Without the engine's lock, on any thread. Empty: it cannot be told.
  [[nodiscard]] static std::optional<Wanted> foresee(Order order);
  // What to plan in. Empty: it needs no script, because all of it has room in `room`, or is no longer wanted. One for the largest size
  // that has room is wanted all the same, for its reserve.
  [[nodiscard]] std::optional<Bytes> begin_script(const Wanted& wanted, Bytes room);
  // For what begin_script was told last; a better one replaces it.
  void keep(std::shared_ptr<const Script> script);
  [[nodiscard]] std::size_t script_count() const;
  // There is more room or less: scripts know what they were made for, what had room may have none.
  void change_room();
  // Costs are others now: what was planned will do until it is planned again.
  void outdate_scripts();
  // What was planned holds no longer; what was learnt does.
  void forget_scripts();

 private:
  struct MarkPart {
    OpPlace op = 0;
    Part part = Part::input;
    std::uint16_t nth = 0;
  };
  // Which of a script's gaps are not needed by a step of this size in this room.
  struct Trim {
    Signature at;
    Bytes room;
    std::vector<bool> spared;
  };
  struct Made {
    Signature at;
    std::shared_ptr<const Script> script;  // null: under way, or it cannot be told, or it fits
    Bytes peak;                            // of the step, were nobody to leave
    std::uint32_t learnt_from = 0;         // steps, when it was ordered
    std::uint64_t used = 0;                // when last
    bool refined = false;
    Bytes room = {}, asked = {};           // that the script was made for; that one was last asked for
    int loosened = 0;                      // times it was asked for again because there was more room
    std::vector<Trim> trims = {};          // of the sizes it was taken for last
  };
  struct Kind {
    std::shared_ptr<const StepKind> forecast;
    std::shared_ptr<const RecordedSteps> steps;  // the first of the kind
    std::vector<MarkPart> marks;
    std::vector<Made> made;
    std::vector<Signature> asked;
    std::vector<Signature> fitting;      // sizes that need no script in `room`, none of them below another
    Bytes room;
    Bytes before;                        // lived when its first step began
    Bytes beside;                        // lives on beside that, or a little less
    std::uint64_t used = 0;              // when last
    int strays = 0;                      // steps in a row that were taken for it and went another way
    std::size_t ordered = 0;             // sizes, ever
    std::optional<Made> standby;         // for a size that has room: its script is all reserve, for the first that has none
    Bytes stood_by;                      // the peak that one was last asked for
    std::shared_ptr<Liveness> foreseen;  // the step at hand

    void learn(Lesson& more);  // in exchange for what was known before
  };
  struct SeenOp {
    std::uint64_t shape = 0;
    Sizes sizes;
  };

  void add_kind(Lesson lesson);
  void replace_kind(Kind kind);
  [[nodiscard]] Kind* find_kind(const StepKind& kind);
  [[nodiscard]] Made* find_ordered(const Order& order);
  void narrow_down();
  [[nodiscard]] std::optional<Signature> signature_of(const Kind& kind) const;
  [[nodiscard]] double distance_to(const Kind& kind, const Signature& signature) const;
  [[nodiscard]] bool is_new_to(const Kind& kind, const Signature& signature) const;
  [[nodiscard]] bool is_hardly_known(std::size_t kind) const;
  [[nodiscard]] Bytes beside_of(const Kind& kind, Bytes room) const;
  [[nodiscard]] static Signature round_up_to_grid(const Kind& kind, const Signature& at);
  [[nodiscard]] static Made* find_made(Kind& kind, const Signature& at, double most_above);
  [[nodiscard]] Found find_script(Kind& kind, Bytes room);
  [[nodiscard]] static Bytes leaves(const Made& made, Bytes room, Bytes peak);
  [[nodiscard]] static Found as_planned(const std::shared_ptr<const Script>& script);
  // The script of a size a little above, without what is in vain at this one.
  [[nodiscard]] static Found find_trim(const Made& made, const Signature& at, Bytes room);
  // The step has this peak, with the margin.
  [[nodiscard]] static Found trim(Made& made, const Signature& at, const Liveness& step, Bytes peak, Bytes margin, Bytes room);
  // The one for the least peak whose plan is enough for the step, which has this peak; where it is larger than all that was planned
  // for, with as much of the reserve as it takes.
  [[nodiscard]] static Found find_enough(const Kind& kind, const Liveness& step, Bytes peak, Bytes room);
  [[nodiscard]] static bool is_below_fitting(const Kind& kind, const Signature& at);
  static void note_fitting(Kind& kind, const Signature& at);
  static void stand_by(Kind& kind, const Signature& at, Bytes peak, Bytes room);
  static void ask(Kind& kind, const Signature& at);
  static void ask_again(Kind& kind, Made& made, Bytes room);
  [[nodiscard]] static std::optional<Signature> find_hole(Kind& kind);
  [[nodiscard]] static std::optional<Signature> next_asked(Kind& kind);
  // One that was made when less was known.
  [[nodiscard]] static Made* find_outdated(Kind& kind);
  [[nodiscard]] static Order order_again(const Kind& kind, Made& made, bool quick);

  std::mutex studying_;
  Forecast forecast_;  // belongs to studying_
  std::vector<Kind> kinds_;
  std::vector<std::size_t> possible_;  // kinds that begin like this step
  std::vector<SeenOp> seen_;
  std::uint64_t uses_ = 0;
  bool varies_ = false, watching_ = false;
  int seldom_ = 0;  // steps that may have been of a kind hardly known
  std::uint32_t strays_ = 0;  // steps that left their course or began like none, since the last kind that turned out to be one
  std::size_t proven_ = 0;    // such kinds
  int looking_ = 0;           // steps in which a size that is new will be recorded
  bool whole_ = false;        // the step is recorded whatever it is
  bool new_size_ = false;     // of this step
  static constexpr std::size_t kLasting = 4;  // steps: what a step returned, which is as large as that one was, does not live so long
  std::array<Bytes, kLasting> living_{};      // when the latest began
  std::size_t begun_ = 0;
  std::optional<std::size_t> chosen_;  // of this step
  Signature now_;
  std::optional<Order> under_way_;     // what begin_script was told last
  Bytes room_under_way_;
};

}  // namespace spillway
