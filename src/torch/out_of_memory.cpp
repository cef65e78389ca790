#include "torch/out_of_memory.h"

#include <c10/util/Exception.h>

#include <sstream>

#include "base/text.h"
#include "torch/frame.h"

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

void describe_op(std::ostringstream& text, const Frame* frame) {
  if (frame == nullptr) {
    text << "outside any operator";
    return;
  }
  text << "in " << frame->op->operator_name();
  if (frame->replay) text << " (run again to rebuild a dropped tensor)";
  text << ", which reads " << to_text(bytes_of(frame->uses)) << " of inputs";
}

std::string tell(Adapter& adapter, const Shortage& why) {
  const EngineStats stats = adapter.engine().stats();
  const Bytes stay = why.pinned + why.held + why.anonymous + why.small;
  const Bytes fits = std::max(stay + why.asked, why.budget + why.asked - why.longest_free);
  const Bytes enough = std::max(stats.floor, round_up(fits, adapter.engine().options().granule));
  std::ostringstream text;
  text << "spillway: the budget of " << to_text(why.budget) << " does not hold " << to_text(why.asked) << " more ";
  describe_op(text, current_frame());
  text << ". Cannot leave: " << to_text(why.pinned) << " in use by running operators, " << to_text(why.held)
       << " whose address left torch (numpy, data_ptr, DLPack), " << to_text(why.anonymous)
       << " of workspace and memory no operator has shown, " << to_text(why.small) << " in tensors under "
       << to_text(adapter.engine().options().smallest) << "; " << to_text(why.evictable)
       << " could leave but found no room below (the host limit is reached, or the disk of the spill folder is full). " << to_text(why.free) << " are free, the longest piece "
       << to_text(why.longest_free) << ". The largest working set of one operator so far (the floor) is "
       << to_text(stats.floor) << ". A budget of about " << to_text(enough) << " would do; a smaller batch needs less.";
  return text.str();
}

Shortage shortage_of(Adapter& adapter, Bytes asked) {
  const auto lock = adapter.engine().lock();
  return adapter.engine().shortage(asked);
}

}  // namespace

void throw_out_of_memory(Adapter& adapter, const Shortage& why) {
  if (why.asked <= why.free) throw InPieces(c10::SourceLocation{__func__, __FILE__, __LINE__}, tell(adapter, why));
  throw c10::OutOfMemoryError(c10::SourceLocation{__func__, __FILE__, __LINE__}, tell(adapter, why));
}

void throw_out_of_memory(Adapter& adapter, Bytes asked) { throw_out_of_memory(adapter, shortage_of(adapter, asked)); }

void throw_workspace_shortage(Adapter& adapter, Bytes asked) {
  const std::string text = tell(adapter, shortage_of(adapter, asked)) +
                           " What was asked for may be the workspace of this convolution: with less of it another algorithm would run and round "
                           "differently, which --workspace adaptive allows.";
  throw WorkspaceShortage(c10::SourceLocation{__func__, __FILE__, __LINE__}, text);
}

void throw_as_out_of_memory(const WorkspaceShortage& why) {
  throw c10::OutOfMemoryError(c10::SourceLocation{__func__, __FILE__, __LINE__}, why.what_without_backtrace());
}

}  // namespace spillway
