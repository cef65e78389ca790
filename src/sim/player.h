// Plays steps of a trace on an engine over a simulated card, as the torch adapter would drive it.
//
// The player only asks and tells: memory for what is born, arguments before each op, kernels and their time, what died.
// Who leaves, how and when is the engine's. One thread; the host runs ahead of the card as far as a launch queue lets it.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "device/fake/fake_device.h"
#include "engine/engine.h"
#include "sim/meter.h"
#include "sim/score.h"

namespace spillway {

struct OpRecipe;

// An op that did not fit: `lacks` so much more than the budget.
struct Unfit {
  std::string op;
  Bytes lacks;
};

class Player final : public Owner {
 public:
  Player(FakeDevice& device, const EngineOptions& options, const Score& score, const Liveness& step);
  ~Player() override;
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  // One step after the other. Once an op did not fit, nothing more is played.
  void play_step();
  // Throws InputError when the file cannot be written.
  void open_trace(const std::string& path, const WriterOptions& kept = {});
  void close_trace();
  // As SimOptions has it.
  void set_slow_clock(double factor) { slow_clock_ = factor; }
  [[nodiscard]] const std::optional<Unfit>& unfit() const { return unfit_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const Meter& meter() const { return meter_; }
  [[nodiscard]] Bytes rebuilt() const { return rebuilt_; }
  [[nodiscard]] std::int64_t timed_ops() const { return timed_ops_; }

  // --- Owner ---
  [[nodiscard]] void* weak(Record& record) override { return record.owner; }
  [[nodiscard]] void* hold(void* weak) override { return weak; }
  void unhold(void*) override {}
  [[nodiscard]] bool may_detach(Record&) override { return true; }
  void detach(Record&) override {}
  void attach(Record&) override {}
  void disown(Record& record) override { record.owner = nullptr; }
  void rebuild(Record& record) override;

 private:
  friend class Rebuild;
  struct NoRoom {};  // thrown where memory was asked for, caught around the op; last_shortage_ says why
  enum class Tried : std::uint8_t { done, failed_before, failed_inside };

  void begin_step();
  void end_step();
  void play(const ScoreOp& op);
  [[nodiscard]] Tried try_play(const ScoreOp& op, bool again);
  [[nodiscard]] Tried look(const ScoreOp& op, std::span<const Use> uses);
  void run_kernel(const ScoreOp& op);
  void give_birth(StoragePlace place, const char* maker);
  void bury(StoragePlace place);
  void follow(const Cue& cue, const char* maker);
  void take_back(const ScoreOp& op);
  [[nodiscard]] Record* allocate(Bytes size, std::string_view maker);
  void leave(const ScoreOp& op, std::span<const Use> uses, Nanos begin);
  void measure(const ScoreOp& op);
  void tell(const ScoreOp& op, std::span<const Use> uses, std::span<Record* const> outputs, Nanos begin);
  void keep_recipe(const ScoreOp& op, std::span<const Use> uses);
  void find_lean(OpRecipe& recipe);
  void find_straight(OpRecipe& recipe);
  [[nodiscard]] bool wants_recipe(const ScoreOp& op, std::span<const Use> uses) const;
  void note_floor(const ScoreOp& op, std::span<const Use> uses, Engine::Lock& lock);
  void refuse(std::string op, const Shortage& why);
  void dispose_of_recipes();
  [[nodiscard]] std::vector<Use> uses_of(const ScoreOp& op);
  [[nodiscard]] std::vector<Record*> outputs_of(const ScoreOp& op);
  [[nodiscard]] const LiveStorage& storage(StoragePlace place) const { return step_.storages()[place]; }

  FakeDevice& device_;
  const Score& score_;
  const Liveness& step_;
  const StreamId compute_;
  Meter meter_;
  Engine engine_;
  std::vector<Record*> records_;  // by place; null: not born
  std::deque<Tick> launched_;     // of the newest ops
  std::uint64_t op_clock_ = 0;
  double slow_clock_ = 0;
  std::vector<Nanos> measured_;   // since the last step's end
  Bytes rebuilt_;
  std::int64_t timed_ops_ = 0;
  Shortage last_shortage_{};
  std::optional<Unfit> unfit_;
};

}  // namespace spillway
