#include "torch/out_of_memory.h"

#include <c10/util/Exception.h>

#include <array>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "torch/frame.h"
#include "torch/region.h"

namespace spillway {

thread_local Frame* the_frame = nullptr;

namespace {

Bytes bytes_of(std::span<const Use> uses) {
  Bytes sum;
  std::vector<const Record*> seen;
  for (const Use& use : uses) {
    if (std::find(seen.begin(), seen.end(), use.record) != seen.end()) continue;
    seen.push_back(use.record);
    sum += use.record->size;
  }
  return sum;
}

void describe_op(std::ostringstream& text, const Frame* frame, const Shortage& why, Bytes made) {
  if (frame == nullptr && in_region()) {
    text << "in a compiled graph or another region of unseen kernels. ";
    return;
  }
  if (frame == nullptr) {  // what reads no tensor is dispatched past us
    text << "for a new tensor (as torch.empty, torch.randn or torch.load make them, or a library for itself). ";
    return;
  }
  text << (why.coming > 0_B ? "to bring home an input of " : "in ") << frame->op->operator_name();
  if (frame->replay) text << " (run again to rebuild a dropped tensor)";
  text << ", which reads " << to_text(bytes_of(frame->uses)) << " of inputs";
  if (why.coming > why.asked) text << ", " << to_text(why.coming) << " of them still to come home";
  text << ". ";
  if (why.coming > 0_B) return;
  if (made > 0_B) text << "It had made " << to_text(made) << " of outputs and workspace before that. ";
}

// Memory comes in whole granules, and others may hold some of it.
void describe_budget(std::ostringstream& text, Bytes whole, Bytes usable, Bytes granule) {
  text << "the budget of " << to_text(whole);
  if (usable != whole) text << " (" << to_text(usable) << " of it ours to place, in pieces of " << to_text(granule) << ")";
}

std::string nowhere_to_go(const Shortage& why) {
  if (why.file && why.host_limit > 0_B) return " with nowhere to go: the host limit of " + to_text(why.host_limit) + " is reached and the disk of the spill folder is full";
  if (why.file) return " with nowhere to go: the disk of the spill folder is full";
  if (why.host_limit > 0_B) return " with nowhere to go: the host limit of " + to_text(why.host_limit) + " is reached, and there is no spill folder (--spill-dir)";
  return " with nowhere to go: there is neither host memory (--host-limit) nor a spill folder (--spill-dir)";
}

void describe_what_stays(std::ostringstream& text, const Shortage& why, Bytes smallest) {
  const std::array parts{
      std::pair(why.pinned, std::string(" in use by running operators")),
      std::pair(why.kept, std::string(" in use by a compiled graph or another region of unseen kernels")),
      std::pair(why.held, std::string(" whose address left torch (numpy, data_ptr, DLPack)")),
      std::pair(why.named, std::string(" whose storage objects Python holds (untyped_storage)")),
      std::pair(why.anonymous, std::string(" of workspace and memory no operator has shown")),
      std::pair(why.small, " in tensors under " + to_text(smallest)),
      std::pair(why.homeless, nowhere_to_go(why)),
  };
  const char* between = "";
  for (const auto& [bytes, words] : parts) {
    if (bytes == 0_B) continue;
    text << std::exchange(between, ", ") << to_text(bytes) << words;
  }
}

// The one reason there was no room.
void describe_cause(std::ostringstream& text, const Shortage& why, Bytes smallest) {
  const Bytes most = std::max(why.asked, why.coming);
  if (most > why.budget) {
    text << (why.coming > why.asked ? "What is to come home alone" : "That alone") << " is more than the budget. ";
    return;
  }
  if (why.stay() > 0_B) {
    text << "Cannot leave: ";
    describe_what_stays(text, why, smallest);
    text << ". ";
  }
  if (why.asked <= why.free) text << "So the bytes are there, but in pieces: ";
  text << to_text(why.free) << " are free, the longest piece " << to_text(why.longest_free) << ". ";
}

// What the operator that failed needs, as far as it came; it raises the floor only when it is done.
Bytes working_set(const Shortage& why) { return why.stay() + std::max(why.asked, why.coming); }

// Who has nowhere to go could leave otherwise.
Bytes floor_with(const EngineStats& stats, const Shortage& why) { return std::max(stats.floor, working_set(why) - why.homeless); }

// A tenth above the largest working set is what always does. As a text it is rounded, by half a percent at most: never down.
Bytes enough_for(const EngineStats& stats, const EngineOptions& options, const Shortage& why) {
  const Bytes most = std::max(stats.floor, working_set(why));
  const Bytes beside = options.budget.value_or(why.budget) - why.budget;  // others', and what is no whole granule
  const Bytes enough = beside + round_up(std::max(most + most / 10, why.budget + why.asked - why.longest_free), options.granule);
  return enough + enough / 200 + 1_B;
}

// So far: what is still to come, in this step or a later one, may need more.
void describe_remedy(std::ostringstream& text, Bytes enough, bool seen_a_step, bool homeless) {
  text << "A budget of about " << to_text(enough) << " would do so far";
  if (!seen_a_step) text << "; without a budget spillway tells what the whole program needs";
  text << "; a smaller batch needs less.";
  if (homeless) text << " So would more room for what leaves: a larger --host-limit, or a --spill-dir on a disk that has some.";
}

std::string tell(Adapter& adapter, const Shortage& why) {
  const EngineStats stats = adapter.engine().stats();
  const EngineOptions& options = adapter.engine().options();
  std::ostringstream text;
  text << "spillway: ";
  describe_budget(text, options.budget.value_or(why.budget), why.budget, options.granule);
  text << " does not hold " << to_text(why.asked) << " more ";
  describe_op(text, current_frame(), why, adapter.engine().made_in_op());
  describe_cause(text, why, options.smallest);
  text << "The largest working set of one operator so far (the floor), this one counted, is " << to_text(floor_with(stats, why)) << ". ";
  describe_remedy(text, enough_for(stats, options, why), stats.steps > 0, why.homeless > 0_B);
  return text.str();
}

Shortage shortage_of(Adapter& adapter, Bytes asked) {
  const auto lock = adapter.engine().lock();
  return adapter.engine().shortage(asked);
}

Hope hope_of(const Shortage& why) { return {.in_pieces = why.asked <= why.free, .crowded = why.crowded}; }

}  // namespace

bool SecondChance::prepare(Hope hope) {
  if (emptied_ || !hope.any() || (turn_ && !hope.in_pieces)) return false;
  if (!turn_) turn_.emplace(adapter_.engine());
  if (hope.in_pieces) adapter_.engine().empty_out();
  emptied_ = hope.in_pieces;
  return true;
}

void throw_out_of_memory(Adapter& adapter, const Shortage& why) {
  if (const Hope hope = hope_of(why); hope.any()) throw TryAgain(c10::SourceLocation{__func__, __FILE__, __LINE__}, tell(adapter, why), hope);
  throw c10::OutOfMemoryError(c10::SourceLocation{__func__, __FILE__, __LINE__}, tell(adapter, why));
}

Hope hope_for(Adapter& adapter, Bytes asked) { return hope_of(shortage_of(adapter, asked)); }

void throw_out_of_memory(Adapter& adapter, Bytes asked) { throw_out_of_memory(adapter, shortage_of(adapter, asked)); }

void throw_workspace_shortage(Adapter& adapter, Bytes asked) {
  const Shortage why = shortage_of(adapter, asked);
  const std::string text = tell(adapter, why) +
                           " What was asked for may be the workspace of this convolution: with less of it another algorithm would run and round "
                           "differently, which --workspace adaptive allows.";
  throw WorkspaceShortage(c10::SourceLocation{__func__, __FILE__, __LINE__}, text, hope_of(why));
}

void throw_as_out_of_memory(const WorkspaceShortage& why) {
  throw c10::OutOfMemoryError(c10::SourceLocation{__func__, __FILE__, __LINE__}, why.what_without_backtrace());
}

}  // namespace spillway
