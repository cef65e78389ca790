// Recorded steps of a known model as bytes, so that the next run of the same script has a plan in its second step.
//
//   magic u64 | checksum of all that follows u64 | who wrote it | count | steps, each with its trace as trace/ writes it
//
// A file is written whole or not at all, and nothing in one is trusted: what is cut short, damaged, foreign or of another version is
// refused with an InputError that names the file and says why. Steps that do not fit the run after all do no harm: a plan
// that is not followed is left.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/step_recorder.h"

namespace spillway {

using KnownSteps = std::vector<std::shared_ptr<const RecordedSteps>>;

[[nodiscard]] std::vector<std::uint8_t> encode_steps(const KnownSteps& steps, std::string_view writer);
// `writer`: who it must have been written by. `name` stands for the file in messages.
[[nodiscard]] KnownSteps decode_steps(std::span<const std::uint8_t> bytes, std::string_view writer, const std::string& name);

// A folder of such files, by what the first step of a run was.
class StepStore {
 public:
  StepStore() = default;
  StepStore(std::string folder, std::string writer) : folder_(std::move(folder)), writer_(std::move(writer)) {}

  [[nodiscard]] bool exists() const { return !folder_.empty(); }
  // Empty: there is none. Throws InputError.
  [[nodiscard]] KnownSteps load(std::uint64_t key) const;
  // Throws InputError when it cannot be written.
  void save(std::uint64_t key, const KnownSteps& steps) const;

 private:
  [[nodiscard]] std::string path_of(std::uint64_t key) const;

  std::string folder_, writer_;
};

// The ops of a run's first step, in two numbers: with and without the sizes of their arguments.
struct Opening {
  bool on = false;
  std::uint64_t sized = 0, shape = 1;

  void add(OpKey key) {
    constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15ull;
    sized = (sized ^ key.sized) * kSpread + 1;
    shape = (shape ^ key.shape) * kSpread + 1;
  }
};

}  // namespace spillway
