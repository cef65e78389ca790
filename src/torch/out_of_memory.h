// torch's own OutOfMemoryError, told to the one who can act: the op, its working set, what cannot leave, what would help.
#pragma once

#include <c10/util/Exception.h>

#include <optional>
#include <string>
#include <utility>

#include "torch/adapter.h"

namespace spillway {

// Why another attempt may do: there are enough free bytes, but not in one piece; ops of other threads had what was missing.
struct Hope {
  bool in_pieces = false, crowded = false;
  [[nodiscard]] bool any() const { return in_pieces || crowded; }
};

// Workspace of a convolution that could not be had. Not an OutOfMemoryError: torch would catch that one inside, take another
// plan and round differently, without a word. It becomes one where it leaves the operator.
class WorkspaceShortage : public c10::Error {
 public:
  WorkspaceShortage(c10::SourceLocation where, std::string text, Hope hope) : Error(where, std::move(text)), hope(hope) {}
  Hope hope;
};

class TryAgain : public c10::OutOfMemoryError {
 public:
  TryAgain(c10::SourceLocation where, std::string text, Hope hope) : OutOfMemoryError(where, std::move(text)), hope(hope) {}
  Hope hope;
};

// Note [An empty house]
// Near the floor an op may fail beside enough free memory, because its own arguments lie across it. Then everything
// leaves, however small, the arguments come home side by side, and the op runs again. What fails beside the ops of other threads
// runs again alone: see Note [A turn alone].
class SecondChance {
 public:
  explicit SecondChance(Adapter& adapter) : adapter_(adapter) {}
  // With nothing pinned. False: all has been tried.
  [[nodiscard]] bool prepare(Hope hope);

 private:
  Adapter& adapter_;
  std::optional<Turn> turn_;  // kept as long as this lives
  bool emptied_ = false;
};

[[nodiscard]] Hope hope_for(Adapter& adapter, Bytes asked);
[[noreturn]] void throw_out_of_memory(Adapter& adapter, Bytes asked);
[[noreturn]] void throw_workspace_shortage(Adapter& adapter, Bytes asked);
[[noreturn]] void throw_as_out_of_memory(const WorkspaceShortage& why);
[[noreturn]] void throw_out_of_memory(Adapter& adapter, const Shortage& why);

}  // namespace spillway
