// The calls of a recorded run, made again: the other side of engine/minutes.h. The engine plans nothing, and goes by the scripts of the run.
//
// What the engine asks back (a rebuild, whether a storage may go, whether a copy is done) is answered by the minutes, too: the next
// call must be that answer. An engine that decides otherwise soon meets a call that does not fit; then nothing more is played, and
// `problem` says what did not fit.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/fake/fake_device.h"
#include "engine/engine.h"
#include "trace/trace.h"

namespace spillway {

class Encore final : public Owner {
 public:
  // Of the events before `end`.
  Encore(FakeDevice& device, EngineOptions options, const Trace& trace, std::size_t end);
  ~Encore() override;
  Encore(const Encore&) = delete;
  Encore& operator=(const Encore&) = delete;

  // All of it; the trace of it goes to `sink`.
  void play(std::unique_ptr<Sink> sink);
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] std::size_t ops() const { return ops_; }
  [[nodiscard]] std::size_t steps() const { return steps_; }

  // --- Owner ---
  [[nodiscard]] void* weak(Record& record) override { return &record; }
  [[nodiscard]] void* hold(void* weak) override;
  void unhold(void*) override {}
  [[nodiscard]] bool is_named(void* held) override;
  [[nodiscard]] bool may_detach(Record& record) override;
  void detach(Record&) override {}
  void attach(Record&) override {}
  void disown(Record& record) override { record.owner = nullptr; }
  void rebuild(Record& record) override;

 private:
  struct Lost {};    // a call that does not fit
  struct Failed {};  // the recorded rebuild did
  struct End {};     // the trace ends in the middle of a call
  class Words;

  void play_next();
  void play(const Call& call);
  void play_memory(CallKind kind, Words& words);
  void play_op(CallKind kind, Words& words);
  void play_storage(CallKind kind, Words& words);
  void play_recipe(CallKind kind, Words& words);
  void play_rebuild(CallKind kind, Words& words);
  void play_control(CallKind kind, Words& words);
  void play_course(CallKind kind, Words& words);
  void steer_after(Engine::Lock& lock, Words& words);
  void join(Words& words);
  void take_over_leads(Words& words);
  // By its number and one; what was told of it since the last one, if it is new. Null: 0.
  [[nodiscard]] std::shared_ptr<const Script> find_script(std::uint64_t number);
  [[nodiscard]] Use read_use(Words& words);
  void acquire(Words& words);
  void tell(const Op& op);
  void expect_failure(bool failed);
  [[nodiscard]] std::unique_ptr<Recipe> read_recipe(Words& words);
  [[nodiscard]] ReplayNote read_replay(Words& words);
  // The next call, if it is of this kind.
  [[nodiscard]] const Call* peek(CallKind kind) const;
  [[nodiscard]] bool is_over() const { return at_ == score_.size(); }
  [[nodiscard]] const Call* peek_refusal(const Record& record) const;
  [[nodiscard]] bool answer(Tick tick);
  [[nodiscard]] Record* find(std::uint64_t storage);
  [[nodiscard]] std::vector<Record*> find_all(Words& words);
  [[noreturn]] void lose(std::string problem);
  void dispose_of_recipes();

  FakeDevice& device_;
  const Trace& trace_;
  std::vector<const Event*> score_;  // calls and ops, in order
  std::size_t at_ = 0;
  std::vector<Record*> records_;     // by number
  std::vector<std::vector<Use>> held_;  // by ops that run, the innermost last
  Recipe* latest_ = nullptr;            // the recipe told last
  std::vector<std::shared_ptr<const Script>> scripts_;
  std::vector<std::uint64_t> lines_;    // of the script that is told
  std::size_t ops_ = 0, steps_ = 0;
  std::string problem_;
  const StreamId caller_;
  Engine engine_;
};

}  // namespace spillway
