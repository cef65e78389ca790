// Recorded steps of a known model and the plan its run settled in, as bytes, so that the next run of the same script goes by a plan
// in its first step already.
//
//   magic u64 | checksum of all that follows u64 | who wrote it | count | steps, each with its trace as trace/ writes it | plan, or none
//
// A file is written whole or not at all, and nothing in one is trusted: what is cut short, damaged, foreign or of another version is
// refused with an InputError that names the file and says why. Steps and plans that do not fit the run after all do no harm: a plan
// that is not followed is left.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/opening.h"
#include "engine/step_recorder.h"
#include "plan/plan.h"

namespace spillway {

using KnownSteps = std::vector<std::shared_ptr<const RecordedSteps>>;

// What was chosen for the last of the steps, by whom, and for how much memory out of how much.
struct KeptPlan {
  std::string policy;
  Bytes budget, limit;
  std::vector<Entry> entries;
  std::vector<PlannedGap> gaps;
};

struct KeptSteps {
  KnownSteps steps;
  std::optional<KeptPlan> plan = {};
};

[[nodiscard]] std::vector<std::uint8_t> encode_steps(const KeptSteps& kept, std::string_view writer);
// `writer`: who it must have been written by. `name` stands for the file in messages.
[[nodiscard]] KeptSteps decode_steps(std::span<const std::uint8_t> bytes, std::string_view writer, const std::string& name);

// The plan as a script for this run. Throws InputError when it is no plan for those steps.
[[nodiscard]] std::shared_ptr<const Script> script_of(const KeptSteps& kept, const Costs& costs);

// A folder of such files, by what the first step of a run was.
class StepStore {
 public:
  StepStore() = default;
  StepStore(std::string folder, std::string writer) : folder_(std::move(folder)), writer_(std::move(writer)) {}

  [[nodiscard]] bool exists() const { return !folder_.empty(); }
  // No steps: there is no such file. Throws InputError.
  [[nodiscard]] KeptSteps load(StepKey key) const;
  // Of the files of runs that began like this: the latest few.
  [[nodiscard]] std::vector<StepKey> find(std::uint64_t begin) const;
  // Throws InputError when it cannot be written.
  void save(StepKey key, const KeptSteps& kept) const;

 private:
  [[nodiscard]] static std::string name_of(StepKey key);
  [[nodiscard]] std::string path_of(StepKey key) const { return folder_ + "/" + name_of(key); }
  // For one run alone: under another name it is of no use.
  [[nodiscard]] std::string writer_of(StepKey key) const { return writer_ + " for " + name_of(key); }

  std::string folder_, writer_;
};

}  // namespace spillway
