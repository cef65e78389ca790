// The first step of a run, op by op: by how it begins what runs before left is found, and where in it a plan of theirs takes over.
//
// A first step is not like those after it: the model is made before it, and much is made in it that is kept from then on (what an
// optimizer keeps, masks, a scale). But what it does is the same in every run of the same script, so where the step that was planned for
// begins in it, and where it goes on after something else, is kept beside the plan:
//
//   op of the first step   0   1  ...  at          at + 1        ...  at'
//   of the planned step                next        next + 1           next'     from each of these on they are the same, for a while
//
// Belongs to the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/script.h"
#include "engine/step_recorder.h"

namespace spillway {

// Where a planned step begins in the first step of a run, or goes on.
struct Entry {
  std::uint64_t at = 0;    // ops of the first step before that
  std::uint64_t next = 0;  // the planned step's op that comes then
  std::uint64_t sum = 0;   // of the ops before

  friend bool operator==(const Entry&, const Entry&) = default;
};

// The stretches of the planned step that the first one has too, in order. None: they have little in common.
[[nodiscard]] std::vector<Entry> find_entries(std::span<const std::uint64_t> first, std::span<const std::uint64_t> planned);

// What the steps of a run are found by again: how its first step began, whatever the sizes, and what all of it was.
struct StepKey {
  std::uint64_t begin = 0, whole = 0;

  friend bool operator==(const StepKey&, const StepKey&) = default;
};

// What a run before this one left, ready to be gone by.
struct KeptRun {
  StepKey key;
  std::vector<std::shared_ptr<const RecordedSteps>> steps;
  std::shared_ptr<const Script> script;  // for the last of them; null: none was left, or none that is good here
  Bytes limit;                           // of the device's memory, when that was made
  std::vector<Entry> entries;            // in order
};

class Opening {
 public:
  // So many ops tell which files to look at; which of them is the right one, if any, the rest tells.
  static constexpr std::size_t kBegin = 16;

  explicit Opening(bool on = false) : on_(on) {}

  [[nodiscard]] bool on() const { return on_; }
  // The step is over; what it was is still known.
  void end() { on_ = false, found_.clear(), fresh_ = false; }
  void add(OpKey key);
  [[nodiscard]] std::size_t ops() const { return ops_; }
  [[nodiscard]] StepKey sized() const { return {begin_, sized_}; }
  [[nodiscard]] StepKey shape() const { return {begin_, shape_}; }
  // None where they are too many to be kept.
  [[nodiscard]] const std::vector<std::uint64_t>& keys() const { return keys_; }

  void take_in(std::vector<KeptRun> found) { found_ = std::move(found), fresh_ = true; }
  [[nodiscard]] const KeptRun* find(StepKey key) const;
  // A kept run whose plan goes on with `key`, the op that is about to run, and the op of the plan that this is.
  struct Joint {
    const KeptRun* run = nullptr;
    std::size_t next = 0;
  };
  [[nodiscard]] std::optional<Joint> find_joint(OpKey key);

 private:
  [[nodiscard]] const Entry* find_entry(const KeptRun& run, bool fresh) const;
  [[nodiscard]] std::optional<std::size_t> find_next(const KeptRun& run, const Entry& entry) const;

  bool on_ = false, fresh_ = false;  // fresh: what was found was not looked at yet
  std::uint64_t begin_ = 0, sized_ = 0, shape_ = 1;
  std::size_t ops_ = 0;
  std::vector<std::uint64_t> keys_;
  std::vector<KeptRun> found_;
};

}  // namespace spillway
