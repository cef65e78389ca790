// What a run like this one recorded before, and what this one leaves for the next.
#include <bit>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"

namespace spillway {

namespace {

constexpr std::size_t kMostKnown = 8;  // steps kept for the next run: what varies shows in four

}  // namespace

void Engine::use_store(StepStore store) {
  const Lock lock(mutex_);
  store_ = std::move(store);
  known_.clear();
  opening_ = {.on = store_.exists() && plans()};
}

// At the end of the first step. True: `recorded_` is a step to plan for; where sizes change the repertoire knows.
bool Engine::recall() {
  opening_.on = false;
  try {
    known_ = store_.load(opening_.shape);  // sizes changed then, so they will now
    if (known_.empty()) known_ = store_.load(opening_.sized);
  } catch (const InputError& error) {
    stats_.store_problem = error.what();
    return false;
  }
  for (const auto& steps : known_) repertoire_.observe(steps);
  stats_.warm_start = !known_.empty();
  if (known_.empty() || repertoire_.varies()) return false;
  recorded_ = known_.back();
  return true;
}

// A few steps that differ in size, or the one that is planned for: by what the first step was without and with sizes.
void Engine::remember(const std::shared_ptr<const RecordedSteps>& steps, Lock& lock) {
  const bool varies = repertoire_.varies();
  if (!store_.exists() || known_.size() >= kMostKnown || (!varies && steps->sample)) return;
  known_.push_back(steps);
  if (varies && !std::has_single_bit(known_.size())) return;
  const StepStore store = store_;
  const KnownSteps known = varies ? known_ : KnownSteps{steps};
  const std::uint64_t key = varies ? opening_.shape : opening_.sized;
  std::string problem;
  lock.unlock();
  try {
    store.save(key, known);
  } catch (const InputError& error) {
    problem = error.what();
  }
  lock.lock();
  if (problem.empty()) return;
  stats_.store_problem = std::move(problem);
  store_ = {};
}

}  // namespace spillway
